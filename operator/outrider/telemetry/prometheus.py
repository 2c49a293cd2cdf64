"""Measurements from Prometheus: one query per tick for all models, a dozen for the largest fleets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from outrider.telemetry.answer import read_answer, read_counts, too_many_series
from outrider.telemetry.complaints import Complaints, Skipped
from outrider.telemetry.loop_thread import LoopThread
from outrider.telemetry.prometheus_http import PrometheusHttp, PrometheusSettings
from outrider.telemetry.promql import around, partition, query, selector
from outrider.telemetry.series import MOST_SERIES, PodKey, PodMetrics, Unreadable
from outrider.telemetry.source import AnswerTooLarge, SourceUnreachable

__all__ = ["PrometheusSettings", "PrometheusSource"]

_PARTS = (1, 3, 8)
"""Queries per tick: as few as fit the limit of an answer, and a dozen in the tick that finds it out."""
_ANSWERS = 4
"""A tick waits for all answers together no longer than for so many: engines hold their tables on a lease."""
_LAST_ANSWER_SECONDS = 10.0
"""For the last answer, which may begin just before the end, and for what is read of it."""


class PrometheusSource:
    """A `MetricsSource` that reads raw samples, so that windows can be cut where the table changed.

    Not for concurrent use: one `fetch` at a time.
    """

    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings
        self._level = 0
        self._shut_out: Mapping[PodKey, int] = {}  # pods with too many series, and how many
        self._complaints = Complaints()
        self._alone = asyncio.Lock()
        self._thread = LoopThread("prometheus")

    async def fetch(self, lookback_seconds: float) -> Mapping[PodKey, PodMetrics]:
        """See `MetricsSource.fetch`. What is read is taken apart beside the caller's event loop."""
        most = _ANSWERS * self._settings.timeout_seconds + _LAST_ANSWER_SECONDS
        try:
            async with asyncio.timeout(most):
                return await self._thread.run(self._fetch(lookback_seconds))
        except TimeoutError as error:
            raise SourceUnreachable(
                f"answers were not read within {most:g} s", action="Look at the operator's load."
            ) from error

    def close(self) -> None:
        """End the thread and its connections."""
        self._thread.close()

    async def _fetch(self, lookback_seconds: float) -> Mapping[PodKey, PodMetrics]:
        async with self._alone, PrometheusHttp(self._settings) as http:
            return await self._fetch_by(http, lookback_seconds)

    async def _fetch_by(self, http: PrometheusHttp, lookback_seconds: float) -> Mapping[PodKey, PodMetrics]:
        deadline = time.monotonic() + _ANSWERS * self._settings.timeout_seconds
        if self._shut_out:
            self._shut_out = _too_large(await _count(http))
        while True:
            found, skipped, too_large = await self._read_parts(http, lookback_seconds, deadline)
            if too_large is None:
                break
            counted = await _count(http)
            before, self._shut_out = self._shut_out, _too_large(counted)
            if self._shut_out.keys() - before.keys():
                continue
            if self._level == len(_PARTS) - 1:
                if not found:
                    raise too_large
                # What is in the way cannot be named; the pods of the other parts go on.
                missing = counted.keys() - found.keys()
                found |= {pod: Unreadable(str(too_large)) for pod in missing}
                break
            self._level += 1
        found |= {pod: too_many_series(count) for pod, count in self._shut_out.items()}
        useless = {pod: metrics.detail for pod, metrics in found.items() if isinstance(metrics, Unreadable)}
        self._complaints.tell({**skipped, **useless})
        return found

    async def _read_parts(
        self, http: PrometheusHttp, lookback_seconds: float, deadline: float
    ) -> tuple[dict[PodKey, PodMetrics], dict[PodKey, Skipped], AnswerTooLarge | None]:
        """All parts that fit; where smaller ones are left to try, none after one that does not."""
        found: dict[PodKey, PodMetrics] = {}
        skipped: dict[PodKey, Skipped] = {}
        too_large = None
        for part in partition(_PARTS[self._level]):
            for others in around(self._shut_out):
                self._require_time(deadline)
                try:
                    answer = read_answer(await http.ask(query(lookback_seconds, part + others)))
                except AnswerTooLarge as error:
                    too_large = error
                    continue
                found |= answer.pods
                skipped |= answer.skipped
            if too_large is not None and self._level < len(_PARTS) - 1:
                break
        return found, skipped, too_large

    def _require_time(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise SourceUnreachable(
                f"not all of {_PARTS[self._level]} answers came in time",
                action="Look at Prometheus' load, or raise the tuning interval and the timeout.",
            )


def _too_large(counted: Mapping[PodKey, int]) -> Mapping[PodKey, int]:
    return {pod: count for pod, count in counted.items() if count > MOST_SERIES}


async def _count(http: PrometheusHttp) -> Mapping[PodKey, int]:
    """Series of every engine pod."""
    return read_counts(await http.ask(f"count by (namespace, pod) ({selector()})"))
