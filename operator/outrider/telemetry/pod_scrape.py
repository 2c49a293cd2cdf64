"""Measurements directly from the engines' /metrics, if there is no Prometheus.

For each pod the source keeps the series of the last page, so that it need not parse them again. Pods with
the same series share them, so only the first of a model needs the parser. A scrape is a row of numbers. A
hostile pod can use at most about 40 MB.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

from outrider.api.text import shortened
from outrider.rounds import PATIENCE_SECONDS, Rounds
from outrider.telemetry.budget import fair_shares
from outrider.telemetry.layout import Layout, beginning
from outrider.telemetry.page import Engine, Misread, Reading, Readings, read_text
from outrider.telemetry.series import PodKey, PodMetrics, PodSeries, SeriesKey, Unreadable, pod_series
from outrider.telemetry.source import MAX_PROBLEM, Complaints, EnginesUnreachable, Skipped
from outrider.transport import NoAnswer, PodHttp

_NOT_ASKED = "not asked within {seconds:g} s, since other pods of its namespace did not answer"
_NO_ANSWER = "no complete answer within {seconds:g} s"
_KEPT_SCRAPES = 8
"""Scrapes kept per pod. A window needs two; more serve after ticks without a window."""


class Scrape(NamedTuple):
    """One page in its stored form. at: unix seconds."""

    at: float
    layout: Layout
    values: array[float]


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
    concurrency: int = 100
    """Simultaneous requests, divided among namespaces. Each namespace has at least one. Late pods have as
    many of their own."""
    patience_seconds: float = PATIENCE_SECONDS  # without any answer, after which a round is over


@dataclass(slots=True)
class _Pod:
    """Stored measurements of one pod."""

    layout: Layout | None = None  # of the last page that was parsed
    scrapes: deque[Scrape] = field(default_factory=lambda: deque(maxlen=_KEPT_SCRAPES))
    skipped: Skipped = field(default_factory=Skipped)  # in the last scrape
    error: str | None = None
    asked_at: float = float("-inf")  # unix seconds

    def take_known(self, at: float, text: str, layout: Layout | None, *, histograms: bool) -> bool:
        """Add one scrape with these series; False if its page has others."""
        values = None if layout is None else layout.read(text, histograms=histograms)
        if layout is None or values is None:
            return False
        self.layout = layout
        self._add(Scrape(at, layout, values))
        return True

    def take(self, at: float, lines: Readings, *, histograms: bool = False) -> Layout:
        """Add one scrape of any series, and return their layout.

        Raises:
            ValueError: counters of the engine itself cannot be parsed, so sums would be wrong.
        """
        skipped = Skipped()
        for found in lines.values():
            if isinstance(found, Misread):
                skipped.add(found.name, found.problem)
        if skipped.of_engine:
            raise ValueError(str(skipped))
        self.layout = Layout(lines, histograms=histograms)
        values = (found.value for found in lines.values() if isinstance(found, Reading))
        self._add(Scrape(at, self.layout, array("d", values)))
        self.skipped = skipped
        return self.layout

    def _add(self, scrape: Scrape) -> None:
        while self.scrapes and self.scrapes[-1].at >= scrape.at:
            self.scrapes.pop()  # its clock was ahead
        self.scrapes.append(scrape)
        self.skipped, self.error = Skipped(), None

    def kept(self, since: float) -> _Kept:
        """What is kept of it, after dropping scrapes that are too old for any window."""
        while self.scrapes and self.scrapes[0].at < since:
            self.scrapes.popleft()
        return _Kept(tuple(self.scrapes), self.error)

    @property
    def turn(self) -> tuple[bool, float]:
        """Its place among late pods; a lower one comes first."""
        return self.error is not None, self.asked_at

    @property
    def problem(self) -> str | None:
        """Problem to report, or empty."""
        return self.error or (str(self.skipped) if self.skipped.count else None)


@dataclass(frozen=True, slots=True)
class _Kept:
    """The stored measurements of a pod at one moment, for another thread."""

    scrapes: tuple[Scrape, ...]
    error: str | None

    @property
    def metrics(self) -> PodMetrics | None:
        """Return the pod's metrics; None if it was never scraped."""
        if self.scrapes:
            return _series(self.scrapes)
        return None if self.error is None else Unreadable(self.error)


class PodScrapeSource:
    """A `MetricsSource` that scrapes every engine pod once per fetch and keeps the last answers.

    So a window is as long as the tuning interval, and a pod's first window needs its second scrape. A pod
    without an answer has no new sample. A resting pod is not asked, and keeps its samples. Not for
    concurrent use.

    A fetch does not wait for a late pod, see `Rounds`. Its answer counts at the next fetch, with the time at
    which it was asked.

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
        self._rounds = Rounds[PodKey](self._settings.patience_seconds)
        self._pods: dict[PodKey, _Pod] = {}
        self._layouts: dict[str, Layout] = {}
        """The newest layout of present pods, by its beginning."""
        self._complaints = Complaints()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        await self._http.aclose()

    async def stop(self) -> None:
        """End the requests to late pods."""
        await self._rounds.aclose()

    async def fetch(
        self, lookback_seconds: float, *, resting: Set[PodKey] = frozenset()
    ) -> Mapping[PodKey, PodMetrics]:
        """See `MetricsSource.fetch`.

        Raises:
            EnginesUnreachable: there are pods, and none answered.
        """
        targets = self._targets()
        self._pods = {target.pod: self._pods.get(target.pod, _Pod()) for target in targets}
        self._rounds.keep(self._pods)
        present = {pod.layout for pod in self._pods.values()}
        self._layouts = {known: layout for known, layout in self._layouts.items() if layout in present}
        await self._scrape_all([target for target in targets if target.pod not in resting])
        pods = self._pods
        self._complaints.tell({key: pod.problem for key, pod in pods.items() if pod.problem is not None})
        errors = [f"{key}: {pod.error}" for key, pod in pods.items() if pod.error is not None]
        if errors and len(errors) == len(pods):
            raise EnginesUnreachable(
                f"no engine answered, the first: {errors[0]}",
                action="Check network policies between the operator and the pods.",
            )
        since = self._clock() - lookback_seconds
        kept = {key: pod.kept(since) for key, pod in pods.items() if key not in resting}
        return await asyncio.to_thread(_metrics, kept)

    async def _scrape_all(self, targets: Sequence[Target]) -> None:
        """Scrape all but the late pods within twice the timeout: until the last request, and its answer.

        Namespaces share the requests, so silent pods delay only pods of their own namespace, and these only
        until the silent ones are late. Of the late ones, those that answered come first, and then those that
        were not asked for the longest time.
        """
        pods, late = self._pods, frozenset(self._rounds.late)
        due = [target for target in targets if target.pod not in self._rounds.running]
        lines = (
            sorted((each for each in due if each.pod in late), key=lambda each: pods[each.pod].turn),
            [each for each in due if each.pod not in late],
        )
        works = {}
        for line in lines:
            slots = self._slots(line)
            for each in line:
                works[each.pod] = partial(
                    self._scrape_in_turn, each, pods[each.pod], slots[each.pod.namespace]
                )
        await self._rounds.run(works)
        for key in works.keys() & self._rounds.running - late:
            pods[key].error = _NO_ANSWER.format(seconds=self._settings.patience_seconds)

    def _slots(self, targets: Sequence[Target]) -> Mapping[str, asyncio.Semaphore]:
        """The simultaneous requests of each namespace."""
        wants = Counter(target.pod.namespace for target in targets)
        shares = fair_shares(wants, self._settings.concurrency)
        return {namespace: asyncio.Semaphore(max(1, share)) for namespace, share in shares.items()}

    async def _scrape_in_turn(self, target: Target, pod: _Pod, slots: asyncio.Semaphore) -> None:
        loop, seconds = asyncio.get_running_loop(), self._settings.timeout_seconds
        until = loop.time() + seconds
        async with slots:
            if loop.time() < until:
                await self._scrape(target, pod)
            else:
                pod.error = _NOT_ASKED.format(seconds=seconds)

    async def _scrape(self, target: Target, pod: _Pod) -> None:
        seconds, at = self._settings.timeout_seconds, self._clock()
        pod.asked_at = at
        try:
            async with asyncio.timeout(seconds):
                text = await self._read(target.url)
            await self._take(pod, at, text, histograms=target.histograms)
        except TimeoutError:
            pod.error = _NO_ANSWER.format(seconds=seconds)
        except Exception as error:  # noqa: BLE001 - isolation: a page must not hide the other pods
            pod.error = _reason(error)

    async def _take(self, pod: _Pod, at: float, text: str, *, histograms: bool) -> None:
        """Add one scrape, by the parser only if no pod has shown the same series."""
        if pod.take_known(at, text, pod.layout, histograms=histograms):
            return
        similar = self._layouts.get(beginning(text, histograms=histograms))
        if pod.take_known(at, text, similar, histograms=histograms):
            return
        lines = await asyncio.to_thread(_parsed, text, pod.layout or similar, histograms)
        layout = pod.take(at, lines, histograms=histograms)
        self._layouts[layout.beginning] = layout

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


def _metrics(pods: Mapping[PodKey, _Kept]) -> dict[PodKey, PodMetrics]:
    found: dict[PodKey, PodMetrics] = {}
    for key, pod in pods.items():
        try:
            metrics = pod.metrics
        except Exception as error:  # noqa: BLE001 - isolation: a page must not hide the other pods
            metrics = Unreadable(_reason(error))
        if metrics is not None:
            found[key] = metrics
    return found


def _parsed(text: str, layout: Layout | None, histograms: bool) -> Readings:
    return read_text(text, {} if layout is None else layout.known(text), histograms=histograms)


def _series(scrapes: Sequence[Scrape]) -> PodSeries:
    """Yield one row per metric and engine, as Prometheus would."""
    layout = scrapes[-1].layout
    if layout.alone and all(scrape.layout is layout for scrape in scrapes):
        return layout.rows([(scrape.at, scrape.values) for scrape in scrapes])
    rows: dict[tuple[Engine, SeriesKey], dict[float, float]] = {}
    for scrape in scrapes:
        for key, value in zip(scrape.layout.series, scrape.values, strict=True):
            rows.setdefault(key, {})[scrape.at] = value
    return pod_series((key, samples) for (_, key), samples in rows.items())
