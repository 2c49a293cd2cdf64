"""The schedules of one model's engines, pushed or launched with, and how far each pod was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from outrider.controller.fleet import EnginePod
from outrider.controller.tune.actuation import Confirmed, Failed, PushReport, push_to_all
from outrider.engine.client import EngineClient
from outrider.engine.errors import EngineUnreachable, StaleTerm
from outrider.engine.state import FastLoop
from outrider.runtimes.metrics import MetricsDialect
from outrider.telemetry.series import PodKey, PodMetrics
from outrider.telemetry.windows import build_window
from outrider.tuning.observe.window import Observation, Window
from outrider_protocol.control_api import Fence, Push
from outrider_protocol.cost_model import CostModel
from outrider_protocol.schedule import Schedule

_EARLIER = ""
"""Name for the pods that an earlier process asked, until this process asked each of them."""

_FARTHEST_EPOCH = 2**31
"""Maximum epoch that is followed. No process reaches it, so a larger one is an error of the engine."""


class ScheduleVersions:
    """The versions of pushed schedules: one rising count per model for the life of the process.

    Engines refuse an older epoch of the same term, also after its lease. A tuner that is created again within
    a term has to continue above the last epoch.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def next(self, uid: str, *, above: int = 0) -> int:
        """An epoch above every earlier one of this model and above ``above``."""
        self._last[uid] = max(self._last.get(uid, 0), above) + 1
        return self._last[uid]


@dataclass(frozen=True, slots=True)
class PodMetricsReader:
    """The metrics of one model's pods at one tick. now: unix seconds; max_age: seconds."""

    namespace: str
    dialect: MetricsDialect
    measured: Mapping[PodKey, PodMetrics]
    now: float
    max_age: float

    def window(self, pod: str, since: float) -> Observation:
        """The observation of a pod since a moment."""
        key = PodKey(self.namespace, pod)
        return build_window(
            key,
            self.measured.get(key),
            dialect=self.dialect,
            since=since,
            until=self.now,
            max_age_seconds=self.max_age,
        )


@dataclass(slots=True)
class Span:
    """The time until which a pod was measured."""

    until: float  # unix seconds; the next window begins here
    has_cells: bool = False  # cells separate K, so windows need no cut at a change

    def next_window(self, pod: str, metrics: PodMetricsReader) -> Observation:
        """The observation since the last window; a gap leaves the span unchanged."""
        self.until = min(self.until, metrics.now)  # later only after a clock that was ahead
        window = metrics.window(pod, self.until)
        if isinstance(window, Window):
            self.until = window.ended_at
            self.has_cells = bool(window.cells)
        return window


@dataclass(slots=True)
class UnpushedPods:
    """Pods without pushes: those without a drafter, or all if schedules come with the launch."""

    spans: dict[str, Span] = field(default_factory=dict)

    def follow(self, pods: Sequence[EnginePod], now: float) -> None:
        """Set the followed pods; each is measured from the moment when it was first seen ready."""
        self.spans = {pod.name: self.spans.get(pod.name, Span(now)) for pod in pods}

    def observe(self, metrics: PodMetricsReader) -> tuple[Observation, ...]:
        """One observation per followed pod."""
        return tuple(span.next_window(name, metrics) for name, span in self.spans.items())


@dataclass(slots=True)
class _Confirmed:
    """A pod that confirmed a schedule."""

    boot_id: str
    epoch: int
    span: Span


@dataclass(frozen=True, slots=True)
class _Leased:
    """The last confirmation of a pod. uid: of the pod."""

    uid: str
    fence: Fence
    answer: Confirmed


class PushedTables:
    """Pushes one schedule to all engines and records which pods use it. Not for concurrent use.

    uid: UID of the model, for its epochs.
    lease: seconds for which an engine keeps the schedule without renewal.
    renewal: seconds from a confirmation to the next push of the same content.
    failed_k: K that failed the self-test by the knowledge of an earlier process.
    clock: unix seconds, for the moment at which a schedule was confirmed.
    """

    def __init__(
        self,
        engines: EngineClient,
        epochs: ScheduleVersions,
        *,
        uid: str,
        lease: float,
        renewal: float = 0.0,
        failed_k: frozenset[int],
        clock: Callable[[], float],
    ) -> None:
        self._engines = engines
        self._epochs = epochs
        self._uid = uid
        self._lease = lease
        self._renewal = renewal
        self._clock = clock
        self._told: dict[str, frozenset[int]] = {_EARLIER: failed_k} if failed_k else {}
        self._pods: dict[str, _Confirmed] = {}
        self._leased: dict[str, _Leased] = {}
        self._overtaken_by: dict[str, int] = {}  # epoch that a pod had in force, once per pod
        self._plain: frozenset[str] = frozenset()  # UIDs of pods that got the last epoch without a cost model
        self.fast_loops: dict[str, FastLoop] = {}
        """The last report of each engine on its own choice of K, by pod."""
        self.order: Push | None = None
        """The last push, also for pods that were not ready at that time."""
        self.in_force: Schedule | None = None
        """The schedule that at least one pod confirmed last; None before that."""

    @property
    def wanted(self) -> Schedule | None:
        """The schedule of the last push."""
        return None if self.order is None else self.order.schedule

    @property
    def _epoch(self) -> int:
        return 0 if self.order is None else self.order.fence.epoch

    @property
    def failed_k(self) -> frozenset[int]:
        """K that failed the self-test of any engine."""
        return frozenset().union(*self._told.values())

    @property
    def measured_until(self) -> float | None:
        """Unix seconds from which on samples are still needed; None without a confirmed pod."""
        return min((known.span.until for known in self._pods.values()), default=None)

    def forget_pods(self) -> None:
        """Drop the pods where none is left, so that no sample of them is needed."""
        self._pods = {}

    def observe(self, pods: Sequence[EnginePod], metrics: PodMetricsReader) -> tuple[Observation, ...]:
        """One observation per pod that uses the wanted schedule."""
        found: list[Observation] = []
        for pod in pods:
            known = self._pods.get(pod.name)
            if known is not None and known.epoch == self._epoch:
                found.append(self._with_survival(pod.name, known.span.next_window(pod.name, metrics)))
        return tuple(found)

    def _with_survival(self, pod: str, window: Observation) -> Observation:
        """Add the acceptance that the engine averaged over all texts, if it chooses K at each step."""
        loop = self.fast_loops.get(pod)
        if loop is None or not loop.active or not isinstance(window, Window):
            return window
        return replace(window, survival=loop.survival)

    async def push(
        self,
        pods: Sequence[EnginePod],
        wanted: Schedule,
        *,
        term: int,
        cost_model: CostModel | None = None,
        taught: Set[str] = frozenset(),
        all_pods: bool = True,
    ) -> PushReport | None:
        """Push a schedule to the pods. Returns None without pods.

        taught: UIDs of the pods that take the cost model.
        all_pods: False leaves out the pods that confirmed the same content less than `renewal` ago.
        """
        epoch = self._next_epoch(wanted, cost_model, taught)
        self.order = Push(Fence(term, epoch), wanted, self._lease, cost_model)
        self._plain = frozenset(pod.address.pod_uid for pod in pods) - taught
        present = {pod.name for pod in pods}
        self._pods = {name: known for name, known in self._pods.items() if name in present}
        self._overtaken_by = {name: at for name, at in self._overtaken_by.items() if name in present}
        if not pods:
            self._leased = {}
            return None
        kept = {} if all_pods else self._kept(pods, self.order.fence)
        due = [pod for pod in pods if pod.name not in kept]
        answers = await push_to_all(self._engines, due, self.order, taught=taught, clock=self._clock)
        self._remember(answers, wanted)
        for failed in answers.failed:
            self._remember_overtaking(failed, term)
        report = _together(pods, answers, kept)
        self._leased = {
            pod.name: _Leased(pod.address.pod_uid, self.order.fence, outcome)
            for pod, outcome in zip(pods, report.outcomes, strict=True)
            if isinstance(outcome, Confirmed)
        }
        self.fast_loops = {c.pod: c.fast_loop for c in report.confirmed if c.fast_loop is not None}
        self._remember_self_tests(report)
        return report

    def _kept(self, pods: Sequence[EnginePod], fence: Fence) -> dict[str, Confirmed]:
        """The confirmations that need no renewal yet, by pod."""
        now, found = self._clock(), dict[str, Confirmed]()
        for pod in pods:
            last = self._leased.get(pod.name)
            if last is None or (last.uid, last.fence) != (pod.address.pod_uid, fence):
                continue
            if 0 <= now - last.answer.at < self._renewal:
                found[pod.name] = last.answer
        return found

    def due(self, pods: Sequence[EnginePod], *, older: float) -> list[EnginePod]:
        """The pods that confirmed the last content at least so many seconds ago."""
        before = self._clock() - older
        return [
            pod for pod in pods if pod.name in self._leased and self._leased[pod.name].answer.at <= before
        ]

    async def renew(self, pods: Sequence[EnginePod], *, older: float) -> bool:
        """Push the last content again to those of these pods that are `due`.

        False if one of them did not confirm it, or started again; the next tick pushes to it.
        """
        due = self.due(pods, older=older)
        if self.order is None or not due:
            return True
        taught, before = frozenset(pod.address.pod_uid for pod in due) - self._plain, dict(self._leased)
        report = await push_to_all(self._engines, due, self.order, taught=taught, clock=self._clock)
        renewed = {confirmed.pod: confirmed for confirmed in report.confirmed}
        all_renewed = True
        for pod in due:
            known, answer = before[pod.name], renewed.get(pod.name)
            if self._leased.get(pod.name) is not known:  # a tick pushed meanwhile
                continue
            if answer is not None and answer.boot_id == known.answer.boot_id:
                self._leased[pod.name] = replace(known, answer=answer)
            else:
                del self._leased[pod.name]
                all_renewed = False
        return all_renewed

    def _next_epoch(self, wanted: Schedule, cost_model: CostModel | None, taught: Set[str]) -> int:
        """Return a new epoch for new content, since engines refuse other content under the same fence."""
        ahead = max(self._overtaken_by.values(), default=0)
        same = wanted == self.wanted and cost_model == (self.order and self.order.cost_model)
        newly_taught = cost_model is not None and bool(self._plain & taught)
        if same and not newly_taught and ahead < self._epoch:
            return self._epoch
        return self._epochs.next(self._uid, above=ahead)

    def _remember_overtaking(self, failed: Failed, term: int) -> None:
        """Record a higher epoch of our own term, which an earlier tuner of this process pushed.

        Each pod counts once: a higher epoch again and again would end every probe of the other pods.
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
            # A lost renewal leaves the schedule as it is, and a restart would show in the boot id. An engine
            # with another answer may run another schedule until it confirms again.
            if not isinstance(failed.error, EngineUnreachable):
                self._pods.pop(failed.pod, None)

    def _remember_self_tests(self, report: PushReport) -> None:
        reported = {o.pod: o.failed_k for o in report.outcomes if o.failed_k is not None}
        present = {outcome.pod for outcome in report.outcomes}
        known = {pod: failed for pod, failed in self._told.items() if pod in present} | reported
        earlier = self._told.get(_EARLIER)
        if earlier is not None and not present <= known.keys():
            known[_EARLIER] = earlier
        self._told = known


def _together(pods: Sequence[EnginePod], answers: PushReport, kept: Mapping[str, Confirmed]) -> PushReport:
    """The report about all pods, in their order."""
    outcomes = {outcome.pod: outcome for outcome in answers.outcomes} | dict(kept)
    return PushReport(answers.epoch, tuple(outcomes[pod.name] for pod in pods), kept=len(kept))
