"""The tuning of one model: observe, decide, actuate, with the state between ticks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from outrider.api.annotations import FORGET
from outrider.api.conditions import ConditionType
from outrider.api.reasons import TuningReason
from outrider.api.schedule import Schedule
from outrider.api.speculation import Actuation, TuningMode
from outrider.controller.fleet import EnginePod, TunedModel
from outrider.controller.launch_orders import LaunchOrders
from outrider.controller.store import state_config_map
from outrider.controller.tune.actuation import ProbeReport, PushReport, start_probe
from outrider.controller.tune.cost_models import CostModels, Teaching, described
from outrider.controller.tune.engine_info import Introduction, Introductions, batch_of_all, each_once
from outrider.controller.tune.engine_tables import PushedTables, ScheduleVersions, UnpushedPods
from outrider.controller.tune.launching import LaunchOutcome, LaunchReport, LaunchTuner, launched_table, runs
from outrider.controller.tune.permission import Permission, Scene, permission
from outrider.controller.tune.snapshot import TunerSnapshot, usable
from outrider.controller.tune.step_time_profiles import Differing, KnownMap, differing, newest
from outrider.engine.client import EngineClient
from outrider.telemetry.series import PodKey, PodMetrics
from outrider.telemetry.source import Measurements, MetricsError
from outrider.tuning.decision import BinEstimates, Decision
from outrider.tuning.moments import not_ahead
from outrider.tuning.observe.window import Observation
from outrider.tuning.policy import Policy
from outrider.tuning.relaunch.state import RelaunchState
from outrider.tuning.state import TunerState
from outrider.tuning.tuner import decide
from outrider_protocol.control_api import Push

Measured = Mapping[PodKey, PodMetrics] | MetricsError | None
"""The answer of the metrics source for all models, or its error; None if it was not asked."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of the loop, in seconds."""

    tick: float
    """Time from one tick to the next."""
    push_lease: float
    """Time for which an engine keeps a pushed schedule without renewal."""
    settle: float
    """Time for which the tuner holds after the ready pods changed, so that the load can spread."""
    rest: float = 1.0
    """Time between two rounds of early ticks, and between the first two ticks."""
    early_tick: float = 3.0
    """Minimum time between two early ticks of one model, however often it changes."""
    starting_push: float = 1.0
    """Time between two pushes to a pod that starts. A server passes a readiness probe before it serves."""
    state_read: float = 1.0
    """Time that a tick waits for the stored state; the next tick looks again."""
    order: float = 5.0
    """Timeout of a launch order; every model waits for the end of the tick."""
    write: float = 20.0
    """Timeout of a background write. The next tick repeats a status or a state; an Event is lost."""
    stop: float = 3.0
    """Timeout of the last writes when the loop stops."""
    cpu: float = 0.5
    """CPU time that one tick of one model may take. A usual tick with one pod takes about 3 ms."""

    @property
    def max_sample_age(self) -> float:
        """Maximum age of a sample; older ones are stale."""
        return max(30.0, 3 * self.tick)

    @property
    def max_fetch(self) -> float:
        """Timeout of the metrics source. After late metrics, there is still time to renew the last push."""
        return (self.push_lease - self.tick) / 2


@dataclass(frozen=True, slots=True)
class TickOutcome:
    """The observations and actions of one tick for one model."""

    model: TunedModel
    now: float  # unix seconds
    observations: tuple[Observation, ...]
    metrics_error: MetricsError | None
    permission: Permission
    decision: Decision | None  # None in mode Off, and if the tuner does not decide
    before: Schedule  # wanted before this tick
    wanted: Schedule
    in_force: Schedule | None  # confirmed last by at least one pod; None before that
    push: PushReport | None  # None without ready pods
    fast_loop: str | None = None  # how engines choose K at each step; None if the schedule chooses
    probe: ProbeReport | None = None  # None if no probe was wanted
    launched: LaunchReport | None = None  # None if schedules are pushed
    launch: LaunchOutcome | None = None  # None if the tuner may not judge the launch
    forgotten: str | None = None  # why this tick reset the tuner; None if it did not
    simulated: tuple[str, ...] = ()  # what simulated engines imitate
    cuda_graphs: tuple[str, ...] = ()  # vLLM's modes of CUDA graphs
    max_num_seqs: int | None = None  # maximum batch size; None if unknown
    known_map: KnownMap | None = None  # measured by engines of this launch before they served
    differing: tuple[Differing, ...] = ()  # pods that differ from it
    metrics_note: str = ""  # a defect of usable measurements, with its remedy

    @property
    def without_drafter(self) -> bool:
        """Whether every ready pod was launched without a drafter."""
        pods = self.model.pods
        return bool(pods) and not any(pod.drafts for pod in pods)

    @property
    def observes(self) -> bool:
        """Whether decisions are reported and not carried out."""
        return self.model.mode is TuningMode.OBSERVE

    @property
    def relaunches_tables(self) -> bool:
        """Whether a chosen schedule becomes a launch, so that the report follows when it is ordered."""
        rollout = self.model.relaunching.actuation is Actuation.ROLLOUT
        return rollout and self.model.mode is TuningMode.AUTO


@dataclass(frozen=True, slots=True)
class _Setup:
    """The part of the spec that the tuner state depends on; a change of it resets the state."""

    mode: TuningMode
    static: Schedule
    policy: Policy


@dataclass(frozen=True, slots=True)
class _ReadyPods:
    """The ready pods, by their launch configuration."""

    drafting: tuple[EnginePod, ...]
    as_launched: tuple[EnginePod, ...]  # under Rollout: those with the ordered schedule
    bare: tuple[EnginePod, ...]  # without a drafter
    rollout: bool  # schedules come with the launch; nothing is pushed

    @classmethod
    def of(cls, model: TunedModel) -> _ReadyPods:
        """The ready pods of a model."""
        rollout = model.relaunching.actuation is Actuation.ROLLOUT
        bare = tuple(pod for pod in model.pods if not pod.drafts)
        drafting = tuple(pod for pod in model.pods if pod.drafts)
        ordered = replace(model.order.launch, drafter=True)
        launched = tuple(pod for pod in drafting if runs(pod, ordered, model)) if rollout else ()
        return cls(drafting, launched, bare, rollout)

    @property
    def with_plugin(self) -> tuple[EnginePod, ...]:
        """Pods that report their state. Engines that take their schedule with the launch are stock images."""
        return () if self.rollout else (*self.drafting, *self.bare)

    def report(self, table: Schedule) -> LaunchReport | None:
        """The progress of a launch; None if schedules are pushed, and without pods with a drafter."""
        if not self.rollout or not self.drafting:
            return None
        return LaunchReport(table, running=len(self.as_launched), pods=len(self.drafting))


class ModelTuner:
    """Tunes one model. Not for concurrent use.

    uid: UID of the model.
    restored: the state of an earlier process for this model under its present spec.
    clock: unix seconds, for the moment at which a schedule was confirmed.
    """

    def __init__(
        self,
        engines: EngineClient,
        launch_orders: LaunchOrders,
        timing: Timing,
        epochs: ScheduleVersions,
        *,
        uid: str,
        restored: TunerSnapshot | None,
        clock: Callable[[], float],
    ) -> None:
        self._engines = engines
        self._timing = timing
        self._restored = restored
        self._setup: _Setup | None = None
        self._state: TunerState | None = None
        self._estimates: Mapping[str, BinEstimates] = restored.estimates if restored else {}
        failed_k = restored.failed_k if restored else frozenset[int]()
        self._pushed = PushedTables(
            engines, epochs, uid=uid, lease=timing.push_lease, failed_k=failed_k, clock=clock
        )
        self._launched = UnpushedPods()
        self._bare = UnpushedPods()
        self._introductions = Introductions(engines)
        self._cost_models = CostModels()
        self._map = restored.step_times if restored else None
        self._launches = LaunchTuner(
            launch_orders,
            restored.relaunches if restored else RelaunchState(),
            timeout_seconds=timing.order,
        )
        self._ready: frozenset[str] = frozenset()
        self._settled_at = float("-inf")
        self._at = float("-inf")  # time of the last tick
        self._probes = 0
        self._forgot = restored.forgot if restored else None
        self._era = 0
        self.deleted_era: int | None = None
        """The era of the tuner state that was deleted. If it is the present one, the next tick resets the
        tuner."""

    @property
    def measured_until(self) -> float | None:
        """Unix seconds from which on samples are still needed; None without a confirmed pod."""
        spans = (*self._launched.spans.values(), *self._bare.spans.values())
        needed = (self._pushed.measured_until, *(span.until for span in spans))
        return min((at for at in needed if at is not None), default=None)

    def coming(self, model: TunedModel) -> tuple[tuple[EnginePod, Push], ...]:
        """Starting pods that will take pushes, each with the last push."""
        order = self._pushed.order
        if order is None or model.relaunching.actuation is Actuation.ROLLOUT:
            return ()
        return tuple((pod, order) for pod in model.coming if pod.drafts)

    @property
    def knowledge(self) -> TunerSnapshot | None:
        """The state for a later process; None if nothing is tuned."""
        setup = self._setup
        if self._state is None or setup is None or setup.mode is TuningMode.OFF:
            return None
        return TunerSnapshot(
            setup.mode,
            setup.static,
            self._state,
            self._estimates,
            self._pushed.failed_k,
            self._launches.state,
            self._forgot,
            self._map,
            self._era,
        )

    async def tick(self, model: TunedModel, measured: Measured, *, term: int, now: float) -> TickOutcome:
        """Observe, decide and actuate once. now: unix seconds."""
        state, policy = self._continue(model)
        state = self._follow_clock(state, now)
        ready = _ReadyPods.of(model)
        observations, bare = self._observe(model, ready, measured, now)
        self._watch_replicas(model, now)
        rule = permission(Scene(model.instructions, model.mode, now, self._settled_at, model.returned_table))
        before = launched_table(model) if ready.rollout else self._pushed.wanted or state.schedule
        forgotten = self._asked_to_forget(model)
        if forgotten is not None:
            state = self._forget(model, policy, rule, state)
        # Until a pod with a drafter is measured, the others must not count as the whole model.
        apart = bare if observations or not ready.drafting else ()
        if self._map is None and measured is not None:
            # The first decision about a launch uses the profile that its engines measured.
            self._map = newest(None, _of(ready.drafting, await self._introductions.of(ready.with_plugin)))
        decides = rule.active and forgotten is None
        decision = self._decide(model, state, policy, observations, apart, now) if decides else None
        wanted = launched_table(model) if ready.rollout else _wanted(model, rule, decision, state)
        teaching = self._cost_models.of_tick(model, rule, decision, ready.drafting, self._introductions.known)
        push, told = await asyncio.gather(
            self._push(ready, wanted, teaching, term), self._introductions.of(ready.with_plugin)
        )
        drafting = _of(ready.drafting, told)
        self._map = newest(self._map, drafting)
        probe = await self._probe(model, decision, push, term)
        # Last, since it may have to wait for the API server.
        launch = await self._launches.tick(model, policy, decision, rule, now)
        return TickOutcome(
            model=model,
            now=now,
            observations=observations + bare,
            metrics_error=measured if isinstance(measured, MetricsError) else None,
            metrics_note=_note(model, measured),
            permission=rule,
            decision=decision,
            before=before,
            wanted=wanted,
            in_force=self._in_force(ready, wanted),
            push=push,
            fast_loop=described(teaching, self._pushed.fast_loops.values()),
            probe=probe,
            launched=ready.report(wanted),
            launch=launch,
            forgotten=forgotten,
            simulated=each_once(one.simulated for one in told),
            cuda_graphs=each_once(one.cuda_graphs for one in told),
            max_num_seqs=model.max_num_seqs or batch_of_all(told),
            known_map=self._map,
            differing=differing(self._map, drafting),
        )

    def _asked_to_forget(self, model: TunedModel) -> str | None:
        """The cause of a reset that was requested since the last tick; None without one."""
        if model.mode is TuningMode.OFF:
            return None
        asked = model.instructions.forget
        if asked is not None and asked != self._forgot:
            self._forgot = asked
            cause = f"the annotation {FORGET} is {asked!r}"
        elif self.deleted_era == self._era:
            cause = f"the ConfigMap {state_config_map(model.name)} was deleted"
        else:
            return None
        start = f"Tuning begins with the static schedule {model.static}."
        return f"Outrider reset the tuner, because {cause}. {start}"

    def _forget(self, model: TunedModel, policy: Policy, rule: Permission, known: TunerState) -> TunerState:
        """Reset the state as for a new model. A pause keeps the schedule, and the facts of engines stay."""
        state = TunerState.start(model.static, policy)
        if rule.reason is TuningReason.PAUSED:
            state = replace(state, schedule=known.schedule)
        self._state, self._estimates = state, {}
        self._launches.forget()
        self._era += 1
        return state

    def _continue(self, model: TunedModel) -> tuple[TunerState, Policy]:
        """The state and the policy of this tick. The state is new if the user changed what it depends on."""
        policy = usable(model.policy, self._pushed.failed_k)
        setup = _Setup(model.mode, model.static, policy)
        if self._state is None or setup != self._setup:
            resumes = self._setup is None and model.mode is TuningMode.AUTO
            base = (_last_reported(model) if resumes else None) or model.static
            restored = self._restored.state if self._restored is not None else None
            if self._state is None and restored is None:
                self._forgot = model.instructions.forget  # there is no state to reset
            self._state = restored or TunerState.start(base, policy)
            self._setup, self._restored = setup, None
        return self._state, model.relaunching.paced(policy)

    def _follow_clock(self, state: TunerState, now: float) -> TunerState:
        """The state with times in the future set to now, after a clock that was ahead."""
        ahead, self._at = max(self._at, state.at or 0.0) - now, now
        if ahead > 0:
            self._state = state = not_ahead(state, now, ahead=ahead)
            self._launches.state = not_ahead(self._launches.state, now, ahead=ahead)
            self._settled_at = min(self._settled_at, now + self._timing.settle)
        return state

    def _watch_replicas(self, model: TunedModel, now: float) -> None:
        """Hold after a change of the ready pods, except for the first pods of a model."""
        ready = frozenset(pod.name for pod in model.pods)
        if ready != self._ready:
            if ready and self._ready:
                self._settled_at = now + self._timing.settle
            self._ready = ready

    def _observe(
        self, model: TunedModel, ready: _ReadyPods, measured: Measured, now: float
    ) -> tuple[tuple[Observation, ...], tuple[Observation, ...]]:
        """Observations of the pods with the wanted schedule, and of those without a drafter."""
        self._launched.follow(ready.as_launched, now)
        self._bare.follow(ready.bare, now)
        if measured is None or isinstance(measured, MetricsError):
            return (), ()
        name, age = model.namespace, self._timing.max_sample_age
        bare = self._bare.observe(name, measured, now=now, max_age=age)
        if ready.rollout:
            return self._launched.observe(name, measured, now=now, max_age=age), bare
        return self._pushed.observe(name, ready.drafting, measured, now=now, max_age=age), bare

    def _decide(
        self,
        model: TunedModel,
        state: TunerState,
        policy: Policy,
        observations: tuple[Observation, ...],
        bare: tuple[Observation, ...],
        now: float,
    ) -> Decision | None:
        if model.mode is TuningMode.OFF:
            return None
        in_force = None
        if model.relaunching.actuation is Actuation.ROLLOUT:
            policy, in_force = policy.relaunching(), launched_table(model)
        elif model.mode is TuningMode.OBSERVE:
            in_force = model.static
        decision = decide(
            observations,
            state,
            policy=policy,
            now=now,
            in_force=in_force,
            without_drafter=bare,
            step_times=None if self._map is None else self._map.among(policy.candidates),
            tick_seconds=self._timing.tick,
        )
        self._state = decision.state
        self._estimates = decision.estimates or self._estimates
        return decision

    async def _push(
        self, ready: _ReadyPods, wanted: Schedule, teaching: Teaching, term: int
    ) -> PushReport | None:
        if ready.rollout:
            return None
        model, taught = teaching.cost_model, teaching.pods
        return await self._pushed.push(ready.drafting, wanted, term=term, cost_model=model, taught=taught)

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

    def _in_force(self, ready: _ReadyPods, wanted: Schedule) -> Schedule | None:
        if ready.rollout:
            return wanted if ready.as_launched else None
        return self._pushed.in_force


def _of(pods: Sequence[EnginePod], told: Sequence[Introduction]) -> tuple[Introduction, ...]:
    names = {pod.name for pod in pods}
    return tuple(one for one in told if one.pod in names)


def _note(model: TunedModel, measured: Measured) -> str:
    pods = (PodKey(model.namespace, pod.name) for pod in model.pods)
    return measured.note(pods) if isinstance(measured, Measurements) else ""


def _wanted(model: TunedModel, rule: Permission, decision: Decision | None, state: TunerState) -> Schedule:
    if rule.table is not None:
        return rule.table
    if model.mode is not TuningMode.AUTO:
        return model.static
    return decision.schedule if decision is not None else state.schedule


def _last_reported(model: TunedModel) -> Schedule | None:
    """The schedule that an earlier process reported for this spec, if it is still allowed; else None."""
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
