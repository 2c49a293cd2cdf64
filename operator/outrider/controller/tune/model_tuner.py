"""One model's tuning: observe, decide, actuate. Holds what must survive from tick to tick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from outrider.api.annotations import FORGET
from outrider.api.reasons import ConditionType, TuningReason
from outrider.api.schedule import Schedule
from outrider.api.speculation import Actuation, TuningMode
from outrider.controller.fleet import EnginePod, TunedModel
from outrider.controller.launch_orders import LaunchOrders
from outrider.controller.store import state_config_map
from outrider.controller.tune.actuation import PushReport
from outrider.controller.tune.engine_tables import Epochs, PushedTables, UnpushedPods
from outrider.controller.tune.launching import LaunchOutcome, LaunchReport, LaunchTuner, launched_table, runs
from outrider.controller.tune.memory import Knowledge, usable
from outrider.controller.tune.permission import Permission, permission
from outrider.controller.tune.probing import ProbeReport, start_probe
from outrider.engine.client import EngineClient, Push
from outrider.telemetry.series import PodKey, PodMetrics
from outrider.telemetry.source import MetricsError
from outrider.tuning.decision import BinEstimates, Decision
from outrider.tuning.law import decide
from outrider.tuning.observe.window import Observation
from outrider.tuning.policy import Policy
from outrider.tuning.relaunch.state import RelaunchState
from outrider.tuning.state import TunerState

Measured = Mapping[PodKey, PodMetrics] | MetricsError
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
    permission: Permission
    decision: Decision | None  # None in mode Off, and where something else rules the table
    before: Schedule  # wanted before this tick
    wanted: Schedule
    in_force: Schedule | None  # what at least one pod confirmed last; None before that
    push: PushReport | None  # None without ready pods
    probe: ProbeReport | None = None  # None where none was wanted
    launched: LaunchReport | None = None  # None where tables are pushed
    launch: LaunchOutcome | None = None  # None where the launch is none of the tuner's business
    forgotten: str | None = None  # why everything learnt before was forgotten at this tick; None where not

    @property
    def without_drafter(self) -> bool:
        """Every ready pod was launched without a drafter."""
        pods = self.model.pods
        return bool(pods) and not any(pod.drafts for pod in pods)

    @property
    def observes(self) -> bool:
        """Decisions are reported and not carried out."""
        return self.model.mode is TuningMode.OBSERVE

    @property
    def relaunches_tables(self) -> bool:
        """A table that is chosen becomes a launch, so it is told of when that is ordered."""
        rollout = self.model.relaunching.actuation is Actuation.ROLLOUT
        return rollout and self.model.mode is TuningMode.AUTO


@dataclass(frozen=True, slots=True)
class _Footing:
    """What the tuner's knowledge rests on; a change of it starts afresh."""

    mode: TuningMode
    static: Schedule
    policy: Policy


@dataclass(frozen=True, slots=True)
class _Sides:
    """The ready pods, by how they were launched."""

    drafting: tuple[EnginePod, ...]
    as_launched: tuple[EnginePod, ...]  # under Rollout: of them, those with the table that was ordered
    bare: tuple[EnginePod, ...]  # without a drafter
    rollout: bool  # tables come with the launch; nothing is pushed

    @classmethod
    def of(cls, model: TunedModel) -> _Sides:
        """Of a model as it stands."""
        rollout = model.relaunching.actuation is Actuation.ROLLOUT
        bare = tuple(pod for pod in model.pods if not pod.drafts)
        drafting = tuple(pod for pod in model.pods if pod.drafts)
        ordered = replace(model.order.launch, drafter=True)
        launched = tuple(pod for pod in drafting if runs(pod, ordered, model)) if rollout else ()
        return cls(drafting, launched, bare, rollout)

    def report(self, table: Schedule) -> LaunchReport | None:
        """None where tables are pushed, and without pods that draft."""
        if not self.rollout or not self.drafting:
            return None
        return LaunchReport(table, running=len(self.as_launched), pods=len(self.drafting))


class ModelTuner:
    """Tunes one model. Not for concurrent use.

    uid: of the model.
    restored: what an earlier process knew of this model, under the spec that it has now.
    clock: unix seconds, for the moment at which a table was confirmed.
    """

    def __init__(
        self,
        engines: EngineClient,
        launch_orders: LaunchOrders,
        timing: Timing,
        epochs: Epochs,
        *,
        uid: str,
        restored: Knowledge | None,
        clock: Callable[[], float],
    ) -> None:
        self._engines = engines
        self._timing = timing
        self._restored = restored
        self._footing: _Footing | None = None
        self._state: TunerState | None = None
        self._estimates: Mapping[str, BinEstimates] = restored.estimates if restored else {}
        failed_k = restored.failed_k if restored else frozenset[int]()
        self._pushed = PushedTables(
            engines, epochs, uid=uid, lease=timing.push_lease, failed_k=failed_k, clock=clock
        )
        self._launched = UnpushedPods()
        self._bare = UnpushedPods()
        self._launches = LaunchTuner(launch_orders, restored.relaunches if restored else RelaunchState())
        self._ready: frozenset[str] = frozenset()
        self._settled_at = float("-inf")
        self._probes = 0
        self._forgot = restored.forgot if restored else None
        self._era = 0
        self.deleted_era: int | None = None
        """Of the knowledge that somebody deleted; where it is the present one, the next tick forgets it."""

    @property
    def measured_until(self) -> float | None:
        """Unix seconds from which on samples are still needed; None without a confirmed pod."""
        spans = (*self._launched.spans.values(), *self._bare.spans.values())
        needed = (self._pushed.measured_until, *(span.until for span in spans))
        return min((at for at in needed if at is not None), default=None)

    def coming(self, model: TunedModel) -> tuple[tuple[EnginePod, Push], ...]:
        """Pods that will take pushes once they are ready, and the last push."""
        order = self._pushed.order
        if order is None or model.relaunching.actuation is Actuation.ROLLOUT:
            return ()
        return tuple((pod, order) for pod in model.coming if pod.drafts)

    @property
    def knowledge(self) -> Knowledge | None:
        """What a later process needs to go on; None where nothing is tuned."""
        footing = self._footing
        if self._state is None or footing is None or footing.mode is TuningMode.OFF:
            return None
        return Knowledge(
            footing.mode,
            footing.static,
            self._state,
            self._estimates,
            self._pushed.failed_k,
            self._launches.state,
            self._forgot,
            self._era,
        )

    async def tick(self, model: TunedModel, measured: Measured, *, term: int, now: float) -> TickOutcome:
        """Observe, decide and actuate once. now: unix seconds."""
        state, policy = self._continue(model)
        sides = _Sides.of(model)
        observations, bare = self._observe(model, sides, measured, now)
        self._watch_replicas(model, now)
        rule = permission(model.instructions, mode=model.mode, now=now, settled_at=self._settled_at)
        before = launched_table(model) if sides.rollout else self._pushed.wanted or state.schedule
        forgotten = self._asked_to_forget(model)
        if forgotten is not None:
            state = self._forget(model, policy, rule, state)
        # While no pod with a drafter was measured yet, the others must not pass for the whole model.
        apart = bare if observations or not sides.drafting else ()
        decides = rule.active and forgotten is None
        decision = self._decide(model, state, policy, observations, apart, now) if decides else None
        wanted = launched_table(model) if sides.rollout else _wanted(model, rule, decision, state)
        push = None if sides.rollout else await self._pushed.push(sides.drafting, wanted, term=term)
        probe = await self._probe(model, decision, push, term)
        # Last, since it may have to wait for the API server.
        launch = await self._launches.tick(model, policy, decision, rule, now)
        return TickOutcome(
            model=model,
            now=now,
            observations=observations + bare,
            metrics_error=measured if isinstance(measured, MetricsError) else None,
            permission=rule,
            decision=decision,
            before=before,
            wanted=wanted,
            in_force=self._in_force(sides, wanted),
            push=push,
            probe=probe,
            launched=sides.report(wanted),
            launch=launch,
            forgotten=forgotten,
        )

    def _asked_to_forget(self, model: TunedModel) -> str | None:
        """By whom, if anybody did since the last time; each request is honoured once."""
        if model.mode is TuningMode.OFF:
            return None
        asked = model.instructions.forget
        if asked is not None and asked != self._forgot:
            self._forgot = asked
            by = f"the annotation {FORGET} is {asked!r}"
        elif self.deleted_era == self._era:
            by = f"the ConfigMap {state_config_map(model.name)} was deleted"
        else:
            return None
        return f"Forgotten on request: {by}. Tuning begins again from the static table {model.static}."

    def _forget(self, model: TunedModel, policy: Policy, rule: Permission, known: TunerState) -> TunerState:
        """As if the model were new; but a pause holds the table, and what engines say of themselves stays."""
        state = TunerState.start(model.static, policy)
        if rule.reason is TuningReason.PAUSED:
            state = replace(state, schedule=known.schedule)
        self._state, self._estimates = state, {}
        self._launches.forget()
        self._era += 1
        return state

    def _continue(self, model: TunedModel) -> tuple[TunerState, Policy]:
        """The state to decide from, afresh when the user changed what it rests on, and what to decide by."""
        policy = usable(model.policy, self._pushed.failed_k)
        footing = _Footing(model.mode, model.static, policy)
        if self._state is None or footing != self._footing:
            resumes = self._footing is None and model.mode is TuningMode.AUTO
            base = (_last_reported(model) if resumes else None) or model.static
            restored = self._restored.state if self._restored is not None else None
            if self._state is None and restored is None:
                self._forgot = model.instructions.forget  # nothing is known that it could be about
            self._state = restored or TunerState.start(base, policy)
            self._footing, self._restored = footing, None
        return self._state, model.relaunching.paced(policy)

    def _watch_replicas(self, model: TunedModel, now: float) -> None:
        """The first pods of a model have no load to share with others, and nothing is known of them yet."""
        ready = frozenset(pod.name for pod in model.pods)
        if ready != self._ready:
            if ready and self._ready:
                self._settled_at = now + self._timing.settle
            self._ready = ready

    def _observe(
        self, model: TunedModel, sides: _Sides, measured: Measured, now: float
    ) -> tuple[tuple[Observation, ...], tuple[Observation, ...]]:
        """Of the pods with the wanted table, and of those without a drafter."""
        self._launched.follow(sides.as_launched, now)
        self._bare.follow(sides.bare, now)
        if isinstance(measured, MetricsError):
            return (), ()
        name, age = model.namespace, self._timing.max_sample_age
        bare = self._bare.observe(name, measured, now=now, max_age=age)
        if sides.rollout:
            return self._launched.observe(name, measured, now=now, max_age=age), bare
        return self._pushed.observe(name, sides.drafting, measured, now=now, max_age=age), bare

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
            observations, state, policy=policy, now=now, in_force=in_force, without_drafter=bare
        )
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

    def _in_force(self, sides: _Sides, wanted: Schedule) -> Schedule | None:
        if sides.rollout:
            return wanted if sides.as_launched else None
        return self._pushed.in_force


def _wanted(model: TunedModel, rule: Permission, decision: Decision | None, state: TunerState) -> Schedule:
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
