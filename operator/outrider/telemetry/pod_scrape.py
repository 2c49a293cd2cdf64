"""Measurements straight from the engines' /metrics, where there is no Prometheus."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from types import TracebackType
from typing import NamedTuple, Self

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample as ParsedSample

from outrider.telemetry import names
from outrider.telemetry.series import PodKey, PodSeries, SeriesKey, pod_series, series_key
from outrider.telemetry.source import EnginesUnreachable
from outrider.transport import pod_http

log = logging.getLogger(__name__)

_KEPT_SCRAPES = 32
_READ = tuple(sorted(names.ALL))

Engine = tuple[str, str]
"""Labels `engine` and `model_name`."""


class Reading(NamedTuple):
    """What one line says."""

    engine: Engine
    key: SeriesKey
    value: float


Readings = Mapping[str, Reading | None]
"""One scrape, line by line; None for a line of no use."""


class Target(NamedTuple):
    """One engine pod. ``url`` has no path."""

    pod: PodKey
    url: str


@dataclass(frozen=True, slots=True)
class ScrapeSettings:
    """Bounds of one round of scrapes."""

    timeout_seconds: float = 3.0  # for one pod's whole answer
    max_response_bytes: int = 8 * 1024 * 1024  # after decompression
    concurrency: int = 100  # pods asked at the same time; 500 silent ones take a quarter of a lease


@dataclass(slots=True)
class _Pod:
    """What is kept of one pod."""

    scrapes: deque[tuple[float, Readings]] = field(default_factory=lambda: deque(maxlen=_KEPT_SCRAPES))
    error: str | None = None


class PodScrapeSource:
    """A `MetricsSource` that asks every engine pod once per fetch and keeps the last answers.

    So windows are as long as the tuning interval, and the first one of a pod comes with its
    second scrape. A pod that does not answer has no new sample. Not for concurrent use.

    targets: the pods of this moment. clock: unix seconds. transport: for tests.
    """

    def __init__(
        self,
        targets: Callable[[], Sequence[Target]],
        settings: ScrapeSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._targets = targets
        self._settings = settings or ScrapeSettings()
        self._clock = clock
        self._http = pod_http(transport)
        self._slots = asyncio.Semaphore(self._settings.concurrency)
        self._pods: dict[PodKey, _Pod] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def fetch(self, lookback_seconds: float) -> Mapping[PodKey, PodSeries]:
        """See `MetricsSource.fetch`.

        Raises:
            EnginesUnreachable: there are pods, and none of them answered.
        """
        targets = self._targets()
        self._pods = {target.pod: self._pods.get(target.pod, _Pod()) for target in targets}
        await asyncio.gather(*(self._scrape(target) for target in targets))
        errors = [pod.error for pod in self._pods.values() if pod.error is not None]
        if errors and len(errors) == len(self._pods):
            raise EnginesUnreachable(
                f"no engine answered, the first: {errors[0]}",
                action="Check network policies between the operator and the pods.",
            )
        since = self._clock() - lookback_seconds
        return {key: _series(pod, since) for key, pod in self._pods.items() if pod.scrapes}

    async def _scrape(self, target: Target) -> None:
        pod = self._pods[target.pod]
        async with self._slots:
            at = self._clock()
            try:
                async with asyncio.timeout(self._settings.timeout_seconds):
                    text = await self._read(target.url)
                known = pod.scrapes[-1][1] if pod.scrapes else {}
                readings = await asyncio.to_thread(read_text, text, known)
            except (httpx.HTTPError, TimeoutError, ValueError) as error:
                said = f"{target.pod}: {error or type(error).__name__}"
                log.log(logging.WARNING if pod.error is None else logging.DEBUG, "not scraped: %s", said)
                pod.error = said
                return
        pod.error = None
        pod.scrapes.append((at, readings))

    async def _read(self, url: str) -> str:
        body = bytearray()
        async with self._http.stream("GET", f"{url}/metrics") as response:
            if not response.is_success:
                raise ValueError(f"HTTP {response.status_code}")
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > self._settings.max_response_bytes:
                    raise ValueError(f"the answer is larger than {self._settings.max_response_bytes} bytes")
        return body.decode()


def read_text(text: str, known: Readings) -> Readings:
    """What /metrics says of what is read; everything else is skipped unparsed.

    known: the scrape before; a line that has not changed, as most have not, is not parsed again.

    Raises:
        ValueError: a line that is none of the text format.
    """
    lines = [line for line in text.splitlines() if line.startswith(_READ)]
    new = [line for line in lines if line not in known]
    families = text_string_to_metric_families("\n".join([*new, ""]))
    # Without comments each line is one sample, and they come in their order.
    samples = [sample for family in families for sample in family.samples]
    if len(samples) != len(new):
        raise ValueError("not the text format of Prometheus")
    parsed = {line: _reading(sample) for line, sample in zip(new, samples, strict=True)}
    return {line: parsed[line] if line in parsed else known[line] for line in lines}


def _reading(sample: ParsedSample) -> Reading | None:
    key = series_key(sample.name, sample.labels) if sample.name in names.ALL else None
    if key is None or not isfinite(sample.value):
        return None
    engine = sample.labels.get("engine", ""), sample.labels.get("model_name", "")
    return Reading(engine, key, float(sample.value))


def _series(pod: _Pod, since: float) -> PodSeries:
    """As Prometheus would have it: one row per metric and engine."""
    rows: dict[tuple[Engine, SeriesKey], dict[float, float]] = {}
    for at, readings in pod.scrapes:
        if at >= since:
            for reading in filter(None, readings.values()):
                rows.setdefault((reading.engine, reading.key), {})[at] = reading.value
    return pod_series((key, samples) for (_, key), samples in rows.items())
