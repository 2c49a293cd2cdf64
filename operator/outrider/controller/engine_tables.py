"""The tables of one model's engines: pushed or launched with, and how far each pod was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from outrider.api.schedule import Schedule
from outrider.controller.actuation import EnginePod, PushReport, push_to_all
from outrider.engine.client import EngineClient, Push
from outrider.engine.errors import EngineUnreachable
from outrider.telemetry.series import PodKey, PodSeries
from outrider.telemetry.windows import build_window
from outrider.tuning.window import Observation, Window

_EARLIER = ""
"""Stands for the pods that an earlier process asked, until each pod was asked anew."""


@dataclass(slots=True)
class Span:
    """How far a pod was measured."""

    until: float  # unix seconds; the next window begins here
    has_cells: bool = False  # cells tell K apart, so that windows need no cut where the table changed

    def next_window(
        self, key: PodKey, measured: Mapping[PodKey, PodSeries], *, now: float, max_age: float
    ) -> Observation:
        """From where the last one ended; a gap leaves the span as it is."""
        series = measured.get(key)
        window = build_window(key, series, since=self.until, until=now, max_age_seconds=max_age)
        if isinstance(window, Window):
            self.until = window.ended_at
            self.has_cells = bool(window.cells)
        return window


@dataclass(slots=True)
class Bystanders:
    """Pods that get no table: those without a drafter, and all of them where tables come with the launch."""

    spans: dict[str, Span] = field(default_factory=dict)

    def follow(self, pods: Sequence[EnginePod], now: float) -> None:
        """A pod is measured from when it was first seen ready."""
        self.spans = {pod.name: self.spans.get(pod.name, Span(now)) for pod in pods}

    def observe(
        self, namespace: str, measured: Mapping[PodKey, PodSeries], *, now: float, max_age: float
    ) -> tuple[Observation, ...]:
        """One observation per followed pod."""
        return tuple(
            span.next_window(PodKey(namespace, name), measured, now=now, max_age=max_age)
            for name, span in self.spans.items()
        )


@dataclass(slots=True)
class _Confirmed:
    """A pod that confirmed a table."""

    boot_id: str
    epoch: int
    span: Span


class PushedTables:
    """Pushes one table to all engines and knows who uses it. Not for concurrent use.

    lease: seconds for which an engine keeps the table without renewal.
    failed_k: what an earlier process knew of the engines' self-tests.
    clock: unix seconds, for the moment at which a table was confirmed.
    """

    def __init__(
        self,
        engines: EngineClient,
        *,
        lease: float,
        failed_k: frozenset[int],
        clock: Callable[[], float],
    ) -> None:
        self._engines = engines
        self._lease = lease
        self._clock = clock
        self._told: dict[str, frozenset[int]] = {_EARLIER: failed_k} if failed_k else {}
        self._pods: dict[str, _Confirmed] = {}
        self.order: Push | None = None
        """The last push, for pods that were not ready then as well."""
        self.in_force: Schedule | None = None
        """What at least one pod confirmed last; None before that."""

    @property
    def wanted(self) -> Schedule | None:
        """The table of the last push."""
        return None if self.order is None else self.order.schedule

    @property
    def _epoch(self) -> int:
        return 0 if self.order is None else self.order.epoch

    @property
    def failed_k(self) -> frozenset[int]:
        """K that failed the self-test of any engine."""
        return frozenset().union(*self._told.values())

    @property
    def measured_until(self) -> float | None:
        """Unix seconds from which on samples are still needed; None without a confirmed pod."""
        return min((known.span.until for known in self._pods.values()), default=None)

    def observe(
        self,
        namespace: str,
        pods: Sequence[EnginePod],
        measured: Mapping[PodKey, PodSeries],
        *,
        now: float,
        max_age: float,
    ) -> tuple[Observation, ...]:
        """One observation per pod that uses the wanted table."""
        return tuple(
            known.span.next_window(PodKey(namespace, pod.name), measured, now=now, max_age=max_age)
            for pod in pods
            if (known := self._pods.get(pod.name)) is not None and known.epoch == self._epoch
        )

    async def push(self, pods: Sequence[EnginePod], wanted: Schedule, *, term: int) -> PushReport | None:
        """To all pods; None without pods."""
        epoch = self._epoch + (wanted != self.wanted)
        self.order = Push(wanted, term=term, epoch=epoch, lease_seconds=self._lease)
        present = {pod.name for pod in pods}
        self._pods = {name: known for name, known in self._pods.items() if name in present}
        if not pods:
            return None
        report = await push_to_all(self._engines, pods, self.order, clock=self._clock)
        self._remember(report, wanted)
        self._remember_self_tests(report)
        return report

    def _remember(self, report: PushReport, wanted: Schedule) -> None:
        for confirmed in report.confirmed:
            known = self._pods.get(confirmed.pod)
            if known is not None and known.boot_id == confirmed.boot_id and known.span.has_cells:
                known.epoch = report.epoch
            elif known is None or (known.boot_id, known.epoch) != (confirmed.boot_id, report.epoch):
                span = Span(confirmed.at)
                self._pods[confirmed.pod] = _Confirmed(confirmed.boot_id, report.epoch, span)
            self.in_force = wanted
        for failed in report.failed:
            # A lost renewal leaves the table in force, and a restart would show in the boot id. An engine
            # that answers otherwise may run with another table until it confirms again.
            if not isinstance(failed.error, EngineUnreachable):
                self._pods.pop(failed.pod, None)

    def _remember_self_tests(self, report: PushReport) -> None:
        told = {o.pod: o.failed_k for o in report.outcomes if o.failed_k is not None}
        present = {outcome.pod for outcome in report.outcomes}
        known = {pod: failed for pod, failed in self._told.items() if pod in present} | told
        earlier = self._told.get(_EARLIER)
        if earlier is not None and not present <= known.keys():
            known[_EARLIER] = earlier
        self._told = known
