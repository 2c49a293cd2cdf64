"""Measurements from Prometheus: one query per tick for all models, or more for a large fleet."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Container, Mapping, Set
from concurrent.futures import ThreadPoolExecutor

from outrider.loop_thread import LoopThread
from outrider.telemetry import budget
from outrider.telemetry.answer import read_counts
from outrider.telemetry.prometheus_http import PrometheusHttp, PrometheusSettings
from outrider.telemetry.prometheus_round import Known, Round
from outrider.telemetry.promql import counting, unlabelled
from outrider.telemetry.series import PodKey, PodMetrics, Unreadable
from outrider.telemetry.source import (
    AnswerMalformed,
    AnswerTooLarge,
    Complaints,
    Measurements,
    SourceUnreachable,
)

__all__ = ["PrometheusSettings", "PrometheusSource"]

log = logging.getLogger(__name__)

_ANSWERS = 3
"""Limit of a tick's wait, in timeouts of one answer, of which the last may begin just before it. By default
a tick gives up after five, and would lose the answers that came."""
_LAST_ANSWER_SECONDS = 10.0
"""Seconds for the last answer, which may begin just before the limit, and for parsing it."""


class PrometheusSource:
    """A `MetricsSource` that reads raw samples, so that a window can start where the schedule changed.

    Not for concurrent use: one `fetch` at a time.

    models: returns the current engine pods, each with its model; queries name only these. Without it,
        queries cover all pods that Prometheus knows.
    histograms: returns the pods whose histograms of latencies are read.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        models: Callable[[], budget.Models] | None = None,
        histograms: Callable[[], Container[PodKey]] = tuple,
    ) -> None:
        self._settings = settings
        self._models = models
        self._histograms = histograms
        self._known = Known()
        self._complaints = Complaints()
        self._copied: tuple[str, ...] = ()
        self._alone = asyncio.Lock()
        # A name lookup cannot be cancelled. All lookups share one thread. So one that hangs delays later
        # ones, within the timeouts of their callers, and never needs a second thread.
        self._lookups = ThreadPoolExecutor(1, thread_name_prefix="prometheus-lookup")
        self._thread = LoopThread("prometheus", executor=self._lookups)
        self._thread.start()

    async def fetch(
        self,
        lookback_seconds: float,
        *,
        resting: Set[PodKey] = frozenset(),
    ) -> Mapping[PodKey, PodMetrics]:
        """See `MetricsSource.fetch`. It parses answers outside of the caller's event loop."""
        most = _ANSWERS * self._settings.timeout_seconds + _LAST_ANSWER_SECONDS
        models = None if self._models is None else self._models()
        try:
            async with asyncio.timeout(most):
                fetching = self._fetch(lookback_seconds, models, self._histograms(), resting)
                return await self._thread.run(fetching)
        except TimeoutError as error:
            raise SourceUnreachable(
                f"answers were not read within {most:g} s", action="Look at the operator's load."
            ) from error

    def close(self) -> None:
        """End the thread and its connections, but do not wait for a lookup that hangs."""
        self._lookups.shutdown(wait=False, cancel_futures=True)
        self._thread.stop()

    async def _fetch(
        self,
        lookback: float,
        models: budget.Models | None,
        histograms: Container[PodKey],
        resting: Set[PodKey],
    ) -> Mapping[PodKey, PodMetrics]:
        async with self._alone, PrometheusHttp(self._settings) as http:
            deadline = time.monotonic() + _ANSWERS * self._settings.timeout_seconds
            this = Round(http, self._known, lookback, lambda: time.monotonic() < deadline, histograms)
            if models is None:
                await self._read_all(http, this)
            else:
                await this.read(models, resting=resting)
                if not this.rows and not resting:  # pods that rest were found by their labels
                    await _require_labels(http)
        self._known = Known() if models is None and this.in_one_answer else this.learnt()
        return self._told(this, resting)

    async def _read_all(self, http: PrometheusHttp, this: Round) -> None:
        """Read every pod that Prometheus knows: by one query, or by name if one answer is too large."""
        too_large = None
        if not self._known.series:
            try:
                await this.read_everything()
                return
            except AnswerTooLarge as error:
                too_large = error
        counts = read_counts((await http.ask(counting())).rows)
        if too_large is not None and not counts:
            raise too_large
        await this.read(dict.fromkeys(counts, ""), counts)

    def _told(self, this: Round, resting: Set[PodKey]) -> Measurements:
        useless = {pod: seen.detail for pod, seen in this.found.items() if isinstance(seen, Unreadable)}
        self._complaints.tell({**this.skipped, **useless}, unasked=resting)
        found = {label for some in this.copied.values() for label in some}
        labels = tuple(sorted(found.union(self._copied if resting else ())))
        note = _deduplicate(labels)
        if labels and labels != self._copied:
            log.warning("%s", note)
        self._copied = labels
        return Measurements(this.found, dict.fromkeys(this.copied, note))


def _deduplicate(labels: tuple[str, ...]) -> str:
    names = ", ".join(labels)
    return (
        f"Prometheus has copies of each series with different labels {names}; Outrider reads one copy."
        f" Switch on deduplication: in Thanos by --query.replica-label={labels[0] if labels else names},"
        " in VictoriaMetrics by -dedup.minScrapeInterval; or name one replica in prometheus.url."
    )


async def _require_labels(http: PrometheusHttp) -> None:
    """Check whether no pod was found because targets lack the labels of pods."""
    if (await http.ask(unlabelled())).rows:
        raise AnswerMalformed(
            "no series of the engines has the labels namespace and pod",
            action="Relabel targets so that they carry namespace, pod and outrider_dev_model.",
        )
