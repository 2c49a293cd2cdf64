"""Measurements directly from the engines' /metrics, if there is no Prometheus.

For each pod the source keeps the last lines, so that it need not parse unchanged ones again, and a few
scrapes as numbers. An engine with 630 series needs about 1 MB. A hostile pod can use at most about 40 MB.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

from outrider.api.text import shortened
from outrider.telemetry.budget import fair_shares
from outrider.telemetry.page import Engine, Misread, Reading, Readings, read_text
from outrider.telemetry.series import PodKey, PodMetrics, PodSeries, SeriesKey, Unreadable, pod_series
from outrider.telemetry.source import MAX_PROBLEM, Complaints, EnginesUnreachable, Skipped
from outrider.transport import NoAnswer, PodHttp

_KEPT_SCRAPES = 8
"""Scrapes kept per pod. A window needs two; more serve after ticks without a window."""

Values = Mapping[tuple[Engine, SeriesKey], float]
"""One scrape in its stored form."""


class Target(NamedTuple):
    """One engine pod. ``url`` has no path."""

    pod: PodKey
    url: str
    histograms: bool = False  # whether those of latencies are read


@dataclass(frozen=True, slots=True)
class ScrapeSettings:
    """Limits of one round of scrapes."""

    timeout_seconds: float = 3.0  # for the whole answer of one pod
    max_response_bytes: int = 4 * 1024 * 1024
    concurrency: int = 100  # simultaneous requests, divided among namespaces; each namespace has at least one


@dataclass(slots=True)
class _Pod:
    """Stored measurements of one pod."""

    lines: Readings = field(default_factory=dict)  # of the last scrape
    scrapes: deque[tuple[float, Values]] = field(default_factory=lambda: deque(maxlen=_KEPT_SCRAPES))
    skipped: Skipped = field(default_factory=Skipped)  # in the last scrape
    error: str | None = None

    def take(self, at: float, lines: Readings) -> None:
        """Add one scrape.

        Raises:
            ValueError: counters of the engine itself cannot be parsed, so sums would be wrong.
        """
        skipped = Skipped()
        for found in lines.values():
            if isinstance(found, Misread):
                skipped.add(found.name, found.problem)
        if skipped.of_engine:
            raise ValueError(str(skipped))
        while self.scrapes and self.scrapes[-1][0] > at:
            self.scrapes.pop()  # its clock was ahead
        readings = (found for found in lines.values() if isinstance(found, Reading))
        self.scrapes.append((at, {(found.engine, found.key): found.value for found in readings}))
        self.lines, self.skipped, self.error = lines, skipped, None

    def forget_before(self, since: float) -> None:
        """Drop scrapes that are too old for any window."""
        while self.scrapes and self.scrapes[0][0] < since:
            self.scrapes.popleft()

    @property
    def problem(self) -> str | None:
        """Problem to report, or empty."""
        return self.error or (str(self.skipped) if self.skipped.count else None)

    @property
    def metrics(self) -> PodMetrics | None:
        """Return the pod's metrics; None if it was never scraped."""
        if self.scrapes:
            return _series(self.scrapes)
        return None if self.error is None else Unreadable(self.error)


class PodScrapeSource:
    """A `MetricsSource` that scrapes every engine pod once per fetch and keeps the last answers.

    So a window is as long as the tuning interval, and a pod's first window needs its second scrape. A pod
    without an answer has no new sample. Not for concurrent use.

    targets: returns the current pods. clock: unix seconds. http: for tests; by default real HTTP.
    """

    def __init__(
        self,
        targets: Callable[[], Sequence[Target]],
        settings: ScrapeSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        http: PodHttp | None = None,
    ) -> None:
        self._targets = targets
        self._settings = settings or ScrapeSettings()
        self._clock = clock
        self._http = http or PodHttp()
        self._pods: dict[PodKey, _Pod] = {}
        self._complaints = Complaints()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def fetch(self, lookback_seconds: float) -> Mapping[PodKey, PodMetrics]:
        """See `MetricsSource.fetch`.

        Raises:
            EnginesUnreachable: there are pods, and none answered.
        """
        targets = self._targets()
        self._pods = {target.pod: self._pods.get(target.pod, _Pod()) for target in targets}
        slots = self._slots(targets)
        await asyncio.gather(*(self._scrape(target, slots[target.pod.namespace]) for target in targets))
        pods = self._pods
        self._complaints.tell({key: pod.problem for key, pod in pods.items() if pod.problem is not None})
        errors = [f"{key}: {pod.error}" for key, pod in pods.items() if pod.error is not None]
        if errors and len(errors) == len(pods):
            raise EnginesUnreachable(
                f"no engine answered, the first: {errors[0]}",
                action="Check network policies between the operator and the pods.",
            )
        since = self._clock() - lookback_seconds
        return await asyncio.to_thread(_metrics, pods, since)

    def _slots(self, targets: Sequence[Target]) -> Mapping[str, asyncio.Semaphore]:
        """Return request slots by namespace, so that silent pods delay only pods of their own namespace."""
        pods = Counter(target.pod.namespace for target in targets)
        shares = fair_shares(pods, self._settings.concurrency)
        return {namespace: asyncio.Semaphore(max(1, share)) for namespace, share in shares.items()}

    async def _scrape(self, target: Target, slot: asyncio.Semaphore) -> None:
        """Scrape one pod within twice the timeout: once for a slot, and once for the answer."""
        pod, seconds = self._pods[target.pod], self._settings.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                await slot.acquire()
        except TimeoutError:
            pod.error = f"not asked within {seconds:g} s, since other pods of its namespace did not answer"
            return
        try:
            at = self._clock()
            try:
                async with asyncio.timeout(seconds):
                    text = await self._read(target.url)
                read = partial(read_text, text, pod.lines, histograms=target.histograms)
                pod.take(at, await asyncio.to_thread(read))
            except TimeoutError:
                pod.error = f"no complete answer within {seconds:g} s"
            except Exception as error:  # noqa: BLE001 - isolation: a page must not hide the other pods
                pod.error = _reason(error)
        finally:
            slot.release()

    async def _read(self, url: str) -> str:
        answer = await self._http.ask("GET", f"{url}/metrics", most_bytes=self._settings.max_response_bytes)
        if not answer.is_success:
            raise ValueError(f"HTTP {answer.status}")
        return answer.content.decode()


def _reason(error: Exception) -> str:
    """Describe an error; name the type of an unexpected one, because its text may be only a number."""
    text = str(error)
    if not text or not isinstance(error, NoAnswer | ValueError):
        text = f"{type(error).__name__}: {text}".removesuffix(": ")
    return shortened(text, MAX_PROBLEM)


def _metrics(pods: Mapping[PodKey, _Pod], since: float) -> dict[PodKey, PodMetrics]:
    found: dict[PodKey, PodMetrics] = {}
    for key, pod in pods.items():
        pod.forget_before(since)
        try:
            metrics = pod.metrics
        except Exception as error:  # noqa: BLE001 - isolation: a page must not hide the other pods
            metrics = Unreadable(_reason(error))
        if metrics is not None:
            found[key] = metrics
    return found


def _series(scrapes: Iterable[tuple[float, Values]]) -> PodSeries:
    """Yield one row per metric and engine, as Prometheus would."""
    rows: dict[tuple[Engine, SeriesKey], dict[float, float]] = {}
    for at, values in scrapes:
        for key, value in values.items():
            rows.setdefault(key, {})[at] = value
    return pod_series((key, samples) for (_, key), samples in rows.items())
