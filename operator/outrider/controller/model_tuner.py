"""One model's tuning: observe, decide, actuate. Holds what must survive from tick to tick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from outrider.api.reasons import ConditionType, TuningReason
from outrider.api.schedule import Schedule
from outrider.api.speculation import TuningMode
from outrider.controller.actuation import EnginePod, PushReport, push_to_all
from outrider.controller.fleet import TunedModel
from outrider.controller.probing import ProbeReport, start_probe
from outrider.controller.standing import Standing, standing
from outrider.controller.tuner_memory import Knowledge, usable
from outrider.engine.client import EngineClient, Push
from outrider.engine.errors import EngineUnreachable
from outrider.telemetry.series import PodKey, PodSeries
from outrider.telemetry.source import MetricsError
from outrider.telemetry.windows import build_window
from outrider.tuning.decision import BinEstimates, Decision
from outrider.tuning.law import decide
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState
from outrider.tuning.window import Observation, Window

_EARLIER = ""
"""Stands for the pods that an earlier process asked, until each pod was asked anew."""

Measured = Mapping[PodKey, PodSeries] | MetricsError
"""One answer of the metrics source for all models, or why there is none."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of the loop, in seconds."""

    tick: float
    """From one tick to the next."""
    push_lease: float
    """How long an engine keeps a pushed table without renewal."""
    max_sample_age: float
    """Older samples are stale: hold."""
    settle: float
    """How long decisions rest after the ready pods changed, so that the load can spread."""


@dataclass(frozen=True, slots=True)
class TickOutcome:
    """Everything that one tick found out and did about one model."""

    model: TunedModel
    now: float  # unix seconds
    observations: tuple[Observation, ...]
    metrics_error: MetricsError | None
    standing: Standing
    decision: Decision | None  # None in mode Off, and where something else rules the table
    before: Schedule  # wanted before this tick
    wanted: Schedule
    in_force: Schedule | None  # what at least one pod confirmed last; None before that
    push: PushReport | None  # None without ready pods
    probe: ProbeReport | None = None  # None where none was wanted


@dataclass(frozen=True, slots=True)
class _Footing:
    """What the tuner's knowledge rests on; a change of it starts afresh."""

    mode: TuningMode
    static: Schedule
    policy: Policy


@dataclass(slots=True)
class _KnownPod:
    """A pod that confirmed the wanted table."""

    boot_id: str
    epoch: int
    measured_until: float  # unix seconds; the next window begins here
    has_cells: bool = False  # cells tell K apart, so that windows need no cut where the table changed


class ModelTuner:
    """Tunes one model. Not for concurrent use.

    restored: what an earlier process knew of this model, under the spec that it has now.
    clock: unix seconds, for the moment at which a table was confirmed.
    """

    def __init__(
        self,
        engines: EngineClient,
        timing: Timing,
        *,
        restored: Knowledge | None,
        clock: Callable[[], float],
    ) -> None:
        self._engines = engines
        self._timing = timing
        self._restored = restored
        self._clock = clock
        self._footing: _Footing | None = None
        self._state: TunerState | None = None
        self._estimates: Mapping[str, BinEstimates] = restored.estimates if restored else {}
        self._failed_k: dict[str, frozenset[int]] = {_EARLIER: restored.failed_k} if restored else {}
        self._wanted: Schedule | None = None
        self._in_force: Schedule | None = None
        self._epoch = 0
        self._pods: dict[str, _KnownPod] = {}
        self._ready: frozenset[str] = frozenset()
        self._settled_at = float("-inf")
        self._probes = 0

    @property
    def measured_until(self) -> float | None:
        """Unix seconds from which on samples are still needed; None without a confirmed pod."""
        return min((known.measured_until for known in self._pods.values()), default=None)

    @property
    def knowledge(self) -> Knowledge | None:
        """What a later process needs to go on; None where nothing is tuned."""
        if self._state is None or self._footing is None or self._footing.mode is TuningMode.OFF:
            return None
        failed_k = frozenset().union(*self._failed_k.values())
        return Knowledge(self._footing.mode, self._footing.static, self._state, self._estimates, failed_k)

    async def tick(self, model: TunedModel, measured: Measured, *, term: int, now: float) -> TickOutcome:
        """Observe, decide and actuate once. now: unix seconds."""
        state = self._continue(model)
        observations = self._observe(model, measured, now)
        self._watch_replicas(model, now)
        rule = standing(model.instructions, now=now, settled_at=self._settled_at)
        decision = self._decide(model, state, observations, now) if rule.active else None
        before = self._wanted or state.schedule
        wanted = _wanted(model, rule, decision, state)
        push = await self._actuate(model, wanted, term)
        probe = await self._probe(model, decision, push, term)
        return TickOutcome(
            model=model,
            now=now,
            observations=observations,
            metrics_error=measured if isinstance(measured, MetricsError) else None,
            standing=rule,
            decision=decision,
            before=before,
            wanted=wanted,
            in_force=self._in_force,
            push=push,
            probe=probe,
        )

    def _continue(self, model: TunedModel) -> TunerState:
        """The state to decide from; afresh when the user changed what it rests on."""
        policy = usable(model.policy, frozenset().union(*self._failed_k.values()))
        footing = _Footing(model.mode, model.static, policy)
        if self._state is None or footing != self._footing:
            resumes = self._footing is None and model.mode is TuningMode.AUTO
            base = (_last_reported(model) if resumes else None) or model.static
            restored = self._restored.state if self._restored is not None else None
            self._state = restored or TunerState.start(base, policy)
            self._footing, self._restored = footing, None
        return self._state

    def _watch_replicas(self, model: TunedModel, now: float) -> None:
        """The first pods of a model have no load to share with others, and nothing is known of them yet."""
        ready = frozenset(pod.name for pod in model.pods)
        if ready != self._ready:
            if ready and self._ready:
                self._settled_at = now + self._timing.settle
            self._ready = ready

    def _observe(self, model: TunedModel, measured: Measured, now: float) -> tuple[Observation, ...]:
        if isinstance(measured, MetricsError):
            return ()
        return tuple(
            self._window(known, PodKey(model.namespace, pod.name), measured, now)
            for pod in model.pods
            if (known := self._pods.get(pod.name)) is not None and known.epoch == self._epoch
        )

    def _window(
        self, known: _KnownPod, key: PodKey, measured: Mapping[PodKey, PodSeries], now: float
    ) -> Observation:
        window = build_window(
            key,
            measured.get(key),
            since=known.measured_until,
            until=now,
            max_age_seconds=self._timing.max_sample_age,
        )
        if isinstance(window, Window):
            known.measured_until = window.ended_at
            known.has_cells = bool(window.cells)
        return window

    def _decide(
        self, model: TunedModel, state: TunerState, observations: tuple[Observation, ...], now: float
    ) -> Decision | None:
        if model.mode is TuningMode.OFF or self._footing is None:
            return None
        in_force = model.static if model.mode is TuningMode.OBSERVE else None
        decision = decide(observations, state, policy=self._footing.policy, now=now, in_force=in_force)
        self._state = decision.state
        self._estimates = decision.estimates or self._estimates
        return decision

    async def _probe(
        self, model: TunedModel, decision: Decision | None, push: PushReport | None, term: int
    ) -> ProbeReport | None:
        if decision is None or decision.probe is None or push is None or model.mode is not TuningMode.AUTO:
            return None
        self._probes += 1
        return await start_probe(
            self._engines,
            decision.probe,
            id=f"{term}-{self._probes}",
            namespace=model.namespace,
            pods=model.pods,
            push=push,
            term=term,
            tick_seconds=self._timing.tick,
        )

    async def _actuate(self, model: TunedModel, wanted: Schedule, term: int) -> PushReport | None:
        if wanted != self._wanted:
            self._wanted = wanted
            self._epoch += 1
        self._forget_absent(model.pods)
        if not model.pods:
            return None
        push = Push(wanted, term=term, epoch=self._epoch, lease_seconds=self._timing.push_lease)
        report = await push_to_all(self._engines, model.pods, push, clock=self._clock)
        self._remember(report, wanted)
        self._remember_self_tests(report)
        return report

    def _remember(self, report: PushReport, wanted: Schedule) -> None:
        for confirmed in report.confirmed:
            known = self._pods.get(confirmed.pod)
            if known is not None and known.boot_id == confirmed.boot_id and known.has_cells:
                known.epoch = report.epoch
            elif known is None or (known.boot_id, known.epoch) != (confirmed.boot_id, report.epoch):
                self._pods[confirmed.pod] = _KnownPod(confirmed.boot_id, report.epoch, confirmed.at)
            self._in_force = wanted
        for failed in report.failed:
            # A lost renewal leaves the table in force, and a restart would show in the boot id. An engine
            # that answers otherwise may run with another table until it confirms again.
            if not isinstance(failed.error, EngineUnreachable):
                self._pods.pop(failed.pod, None)

    def _remember_self_tests(self, report: PushReport) -> None:
        told = {o.pod: o.failed_k for o in report.outcomes if o.failed_k is not None}
        present = {outcome.pod for outcome in report.outcomes}
        known = {pod: failed for pod, failed in self._failed_k.items() if pod in present} | told
        earlier = self._failed_k.get(_EARLIER)
        if earlier is not None and not present <= known.keys():
            known[_EARLIER] = earlier
        self._failed_k = known

    def _forget_absent(self, pods: tuple[EnginePod, ...]) -> None:
        present = {pod.name for pod in pods}
        self._pods = {name: known for name, known in self._pods.items() if name in present}


def _wanted(model: TunedModel, rule: Standing, decision: Decision | None, state: TunerState) -> Schedule:
    if rule.table is not None:
        return rule.table
    if model.mode is not TuningMode.AUTO:
        return model.static
    return decision.schedule if decision is not None else state.schedule


def _last_reported(model: TunedModel) -> Schedule | None:
    """The table that an earlier process chose and reported for this very spec, where it is still allowed."""
    speculation = model.status.speculation
    converged = model.status.condition(ConditionType.ACTUATION_CONVERGED)
    active = model.status.condition(ConditionType.TUNING_ACTIVE)
    if speculation is None or not speculation.schedule or converged is None:
        return None
    if active is not None and active.reason == TuningReason.OVERRIDDEN:
        return None
    if converged.observed_generation != model.generation:
        return None
    try:
        table = Schedule.from_wire([row.model_dump(by_alias=True) for row in speculation.schedule])
    except ValueError:
        return None
    return table if table.values() <= set(model.policy.candidates) else None
