"""One fetch from Prometheus: the grouping of pods into queries, and the treatment of pods that do not fit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Set
from dataclasses import dataclass, field

from outrider.telemetry.answer import read_answer, read_counts
from outrider.telemetry.budget import (
    MAX_SERIES_TOGETHER,
    Batch,
    Models,
    Series,
    batches,
    by_namespace,
    by_turns,
    halves,
    left_out,
)
from outrider.telemetry.prometheus_http import PrometheusHttp
from outrider.telemetry.promql import counting, query
from outrider.telemetry.series import PodKey, PodMetrics, Unreadable
from outrider.telemetry.source import AnswerTooLarge, MetricsError, Skipped

_NEW = 250
"""Assumed number of series of a new pod. An engine with 3 used batch bins has 221."""
_LEAST_DENSITY, _MAX_DENSITY = 600.0, 4096.0
"""Minimum and maximum bytes of a series. 10 samples with usual labels take 600."""
_MAX_CHARACTERS = 4000
"""Limit of names in one query. Proxies accept URLs of 8 KiB, in which some characters count threefold."""


@dataclass(frozen=True)
class Known:
    """Results of earlier fetches.

    series: of each pod, as read or counted. left_out: pods that were counted and not read.
    too_large: pods whose answer alone is too large. late: pods for which there was no time.
    density: bytes of a series.
    """

    series: Series = field(default_factory=dict)
    left_out: frozenset[PodKey] = frozenset()
    too_large: Mapping[PodKey, str] = field(default_factory=dict)
    late: frozenset[PodKey] = frozenset()
    density: float = _LEAST_DENSITY


class Round:
    """One fetch. A namespace with a pod whose answer is too large comes last, in its own queries.

    in_time: returns True while there is time for another answer.
    histograms: pods whose histograms of latencies are read.
    """

    def __init__(
        self,
        http: PrometheusHttp,
        known: Known,
        lookback_seconds: float,
        in_time: Callable[[], bool],
        histograms: Container[PodKey] = (),
    ) -> None:
        self._http = http
        self._known = known
        self._lookback = lookback_seconds
        self._in_time = in_time
        self._histograms = histograms
        self._models: Models = {}
        self._series = dict(known.series)
        self._too_large = dict(known.too_large)
        self._left_out: frozenset[PodKey] = frozenset()
        self._late = set[PodKey]()
        self._counted = False
        self._waiting = deque[Batch]()
        self._read_bytes = self._read_rows = self._answers = 0
        self._errors: list[MetricsError] = []
        self.rows = 0
        self.found: dict[PodKey, PodMetrics] = {}
        self.skipped: dict[PodKey, Skipped] = {}
        self.copied: dict[PodKey, tuple[str, ...]] = {}

    async def read_everything(self) -> None:
        """Read all pods by one query.

        Raises:
            MetricsError: there is no readable answer.
        """
        answer = read_answer((await self._http.ask(query(self._lookback))).rows)
        self.found, self.skipped = dict(answer.pods), dict(answer.skipped)
        self.copied, self.rows = dict(answer.copied), sum(answer.rows.values())

    async def read(
        self, models: Models, counts: Series | None = None, *, resting: Set[PodKey] = frozenset()
    ) -> None:
        """Read as many of these pods as limits and time allow; the others become `Unreadable`.

        counts: number of series of each pod, if known. resting: those of the pods that are not read.

        Raises:
            MetricsError: there was no readable answer.
        """
        self._models = models
        asked = [pod for pod in models if pod not in resting]
        if counts is None and (not self._known.left_out.isdisjoint(asked) or self._refused(asked)):
            counts = await self._count(asked)
        self._counted = self._counted or counts is not None
        self._plan(asked, counts or {})
        while self._waiting:
            batch = self._waiting.popleft()
            if self._in_time():
                await self._ask(batch)
            else:
                self._late.update(batch)
                self._refuse(batch, "not read, because other answers took all the time")
        if self._errors and not self._answers:
            raise self._errors[0]

    @property
    def in_one_answer(self) -> bool:
        """True if all pods fitted into one answer."""
        return self._answers == 1 and not self._left_out and not self._too_large

    def learnt(self) -> Known:
        """Return the results that the next fetch uses."""
        density = self._read_bytes / self._read_rows if self._read_rows else self._known.density
        return Known(
            {pod: self._series[pod] for pod in self._models if pod in self._series},
            self._left_out,
            {pod: why for pod, why in self._too_large.items() if pod in self._models},
            frozenset(self._late),
            min(max(density, _LEAST_DENSITY), _MAX_DENSITY),
        )

    def _guessed(self, pods: Iterable[PodKey]) -> Series:
        return {pod: self._series.get(pod, _NEW) for pod in pods}

    def _refused(self, pods: Iterable[PodKey]) -> Mapping[PodKey, str]:
        room = max(0, MAX_SERIES_TOGETHER - self.rows)
        return left_out(self._guessed(pods), self._models, most=room)

    def _plan(self, pods: Collection[PodKey], counts: Series) -> None:
        """Choose the queries and their order."""
        self._series |= counts
        series, refused = self._guessed(pods), self._refused(pods)
        self._left_out |= refused.keys()
        for pod, why in refused.items():
            self._refuse((pod,), why)
        asked = {pod: count for pod, count in series.items() if pod not in refused}
        apart = {pod.namespace for pod in self._too_large if pod in self._models}
        calm = {pod: count for pod, count in asked.items() if pod.namespace not in apart}
        turns = by_turns(by_namespace(self._batches(calm)))
        self._waiting.extend(sorted(turns, key=self._known.late.isdisjoint))  # late ones first
        self._waiting.extend(by_turns([self._apart(name, asked) for name in sorted(apart)]))

    def _apart(self, namespace: str, asked: Series) -> list[Batch]:
        """Return the queries of one namespace; retry only one of its pods that were too large."""
        own = {pod: count for pod, count in asked.items() if pod.namespace == namespace}
        well = self._batches({pod: count for pod, count in own.items() if pod not in self._too_large})
        large = [pod for pod in self._too_large if pod in own]
        for pod in large[1:]:
            self._refuse((pod,), self._too_large[pod])
        if not large:
            return well
        again = large[0]
        self._too_large[again] = self._too_large.pop(again)  # the others come first at the next fetches
        return [*well, (again,)]

    def _batches(self, series: Series) -> list[Batch]:
        most = int(self._http.most_bytes / 2 / self._known.density)
        return list(
            batches(
                series,
                self._models,
                most_series=most,
                most_characters=_MAX_CHARACTERS,
                never=self._left_out | self._too_large.keys(),
            )
        )

    async def _ask(self, batch: Batch) -> None:
        try:
            histograms = any(pod in self._histograms for pod in batch)
            result = await self._http.ask(query(self._lookback, batch, histograms=histograms))
            answer = read_answer(result.rows, frozenset(batch))
        except AnswerTooLarge as error:
            await self._make_smaller(batch, error)
            return
        except MetricsError as error:
            self._errors.append(error)
            self._refuse(batch, str(error))
            return
        self._answers += 1
        for pod in batch:
            self._too_large.pop(pod, None)
            self._series[pod] = answer.rows.get(pod, 0)
            if pod not in answer.pods:
                continue
            self.rows += self._series[pod]
            if self.rows > 2 * MAX_SERIES_TOGETHER:
                self.found[pod] = Unreadable("its number of series rose and exceeds the limit")
            else:
                self.found[pod] = answer.pods[pod]
        self.skipped |= answer.skipped
        self.copied |= answer.copied
        if not any(pod.namespace == other.namespace for pod in batch for other in self._too_large):
            self._read_bytes += result.size
            self._read_rows += sum(answer.rows.values())

    async def _make_smaller(self, batch: Batch, error: AnswerTooLarge) -> None:
        """Count series once, because a pod may have grown; then split the batch down to a single pod."""
        self._answers += 1
        if len(batch) == 1:
            self._too_large[batch[0]] = str(error)
            self._refuse(batch, str(error))
        elif not self._counted:
            pods = [*batch, *(pod for later in self._waiting for pod in later)]
            self._waiting.clear()
            self._plan(pods, await self._count(pods))
        else:
            self._waiting.extendleft(reversed(halves(batch, self._models)))

    async def _count(self, pods: Iterable[PodKey]) -> Series:
        """Return the current number of series of each pod; empty if it cannot be counted."""
        self._counted = True
        counts: dict[PodKey, int] = {}
        alike = dict.fromkeys(pods, 1)
        most = len(alike)
        for some in batches(alike, self._models, most_series=most, most_characters=_MAX_CHARACTERS):
            try:
                found = read_counts((await self._http.ask(counting(some))).rows)
            except MetricsError:
                return {}
            counts |= {pod: found.get(pod, 0) for pod in some}
        return counts

    def _refuse(self, batch: Batch, why: str) -> None:
        for pod in batch:
            self.found[pod] = Unreadable(why)
