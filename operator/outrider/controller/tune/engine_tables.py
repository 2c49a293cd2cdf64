"""The tables of one model's engines: pushed or launched with, and how far each pod was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from outrider.api.schedule import Schedule
from outrider.controller.fleet import EnginePod
from outrider.controller.tune.actuation import Failed, PushReport, push_to_all
from outrider.engine.client import EngineClient, Push
from outrider.engine.errors import EngineUnreachable, StaleTerm
from outrider.telemetry.series import PodKey, PodMetrics
from outrider.telemetry.windows import build_window
from outrider.tuning.observe.window import Observation, Window

_EARLIER = ""
"""Stands for the pods that an earlier process asked, until each pod was asked anew."""

_FARTHEST_EPOCH = 2**31
"""No process comes so far by itself; an engine that says so is not followed."""


class Epochs:
    """Numbers of pushed tables: one rising count per model, kept for as long as the process lives.

    Engines refuse an older epoch of the same term, also after its lease. A tuner that is built anew in that
    term, since its loop failed or its model was away for a while, has to go on above the last one's.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def next(self, uid: str, *, above: int = 0) -> int:
        """A larger one than any before of this model, and than ``above``."""
        self._last[uid] = max(self._last.get(uid, 0), above) + 1
        return self._last[uid]


@dataclass(slots=True)
class Span:
    """How far a pod was measured."""

    until: float  # unix seconds; the next window begins here
    has_cells: bool = False  # cells tell K apart, so that windows need no cut where the table changed

    def next_window(
        self, key: PodKey, measured: Mapping[PodKey, PodMetrics], *, now: float, max_age: float
    ) -> Observation:
        """From where the last one ended; a gap leaves the span as it is."""
        self.until = min(self.until, now)  # later only where the clock was ahead
        series = measured.get(key)
        window = build_window(key, series, since=self.until, until=now, max_age_seconds=max_age)
        if isinstance(window, Window):
            self.until = window.ended_at
            self.has_cells = bool(window.cells)
        return window


@dataclass(slots=True)
class UnpushedPods:
    """Pods that get no table: those without a drafter, and all of them where tables come with the launch."""

    spans: dict[str, Span] = field(default_factory=dict)

    def follow(self, pods: Sequence[EnginePod], now: float) -> None:
        """A pod is measured from when it was first seen ready."""
        self.spans = {pod.name: self.spans.get(pod.name, Span(now)) for pod in pods}

    def observe(
        self, namespace: str, measured: Mapping[PodKey, PodMetrics], *, now: float, max_age: float
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

    uid: of the model, for its epochs.
    lease: seconds for which an engine keeps the table without renewal.
    failed_k: what an earlier process knew of the engines' self-tests.
    clock: unix seconds, for the moment at which a table was confirmed.
    """

    def __init__(
        self,
        engines: EngineClient,
        epochs: Epochs,
        *,
        uid: str,
        lease: float,
        failed_k: frozenset[int],
        clock: Callable[[], float],
    ) -> None:
        self._engines = engines
        self._epochs = epochs
        self._uid = uid
        self._lease = lease
        self._clock = clock
        self._told: dict[str, frozenset[int]] = {_EARLIER: failed_k} if failed_k else {}
        self._pods: dict[str, _Confirmed] = {}
        self._overtaken_by: dict[str, int] = {}  # epoch that a pod had in force, once per pod
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
        measured: Mapping[PodKey, PodMetrics],
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
        self.order = Push(wanted, term=term, epoch=self._next_epoch(wanted), lease_seconds=self._lease)
        present = {pod.name for pod in pods}
        self._pods = {name: known for name, known in self._pods.items() if name in present}
        self._overtaken_by = {name: at for name, at in self._overtaken_by.items() if name in present}
        if not pods:
            return None
        report = await push_to_all(self._engines, pods, self.order, clock=self._clock)
        self._remember(report, wanted)
        self._remember_self_tests(report)
        for failed in report.failed:
            self._remember_overtaking(failed, term)
        return report

    def _next_epoch(self, wanted: Schedule) -> int:
        ahead = max(self._overtaken_by.values(), default=0)
        if wanted == self.wanted and ahead < self._epoch:
            return self._epoch
        return self._epochs.next(self._uid, above=ahead)

    def _remember_overtaking(self, failed: Failed, term: int) -> None:
        """Nobody else has this term, so an epoch of it that is in force is our own from before.

        A pod is believed once: to outbid it again and again would end every probe of the others.
        """
        state = failed.state
        if not isinstance(failed.error, StaleTerm) or state is None or failed.pod in self._overtaken_by:
            return
        if state.term == term and state.epoch < _FARTHEST_EPOCH:
            self._overtaken_by[failed.pod] = state.epoch

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
