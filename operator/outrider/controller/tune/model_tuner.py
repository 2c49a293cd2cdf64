"""The tuning of one model: observe, decide, actuate, with the state between ticks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from outrider.api.reasons import TuningReason
from outrider.api.tuning import TuningMode
from outrider.controller.fleet import EnginePod, TunedModel
from outrider.controller.tune.actuation import ProbeReport, PushReport, start_probe
from outrider.controller.tune.api_server import ApiServer
from outrider.controller.tune.cost_models import Teaching, described
from outrider.controller.tune.engine_info import (
    EngineInfos,
    batch_of_all,
    each_once,
    other_versions,
    with_answers,
)
from outrider.controller.tune.engine_tables import (
    PodMetricsReader,
    PushedTables,
    ScheduleVersions,
    UnpushedPods,
)
from outrider.controller.tune.launch_side import LaunchSide, LaunchSides, infos_of
from outrider.controller.tune.launching import LaunchTuner, launch_report, launched_pods, launched_table
from outrider.controller.tune.outcome import Actuated, EngineSummary, Observed, TickOutcome
from outrider.controller.tune.permission import Permission, PermissionInput, permission
from outrider.controller.tune.snapshot import TunerSnapshot, last_reported, usable
from outrider.controller.tune.step_time_profiles import differing
from outrider.controller.tune.tick import Tick
from outrider.controller.tune.timing import Timing
from outrider.controller.tune.tuner_store import TunerStore
from outrider.engine.client import EngineClient
from outrider.telemetry.series import PodKey, PodMetrics
from outrider.telemetry.source import Measurements, MetricsError
from outrider.tuning.decision import Decision
from outrider.tuning.moments import not_ahead
from outrider.tuning.observe.window import Observation
from outrider.tuning.policy import Policy
from outrider.tuning.relaunch.state import RelaunchState
from outrider.tuning.state import TunerState
from outrider.tuning.tuner import decide
from outrider_protocol.control_api import Push
from outrider_protocol.schedule import Schedule

Measured = Mapping[PodKey, PodMetrics] | MetricsError | None
"""The answer of the metrics source for all models, or its error; None if it was not asked."""


@dataclass(frozen=True, slots=True)
class Engines:
    """The access to engines.

    versions: those of this process, which outlive a loop.
    term: the leadership term, read at each tick; it fences every push.
    """

    client: EngineClient
    versions: ScheduleVersions
    term: Callable[[], int]


class ModelTuner:
    """Tunes one model. Not for concurrent use.

    store: has the state of an earlier process for this model, and requests to reset it.
    uid: UID of the model.
    clock: unix seconds, for the moment at which a schedule was confirmed.
    """

    def __init__(
        self,
        engines: Engines,
        api_server: ApiServer,
        store: TunerStore,
        timing: Timing,
        *,
        uid: str,
        clock: Callable[[], float],
    ) -> None:
        restored = store.restored
        self._engines = engines
        self._store = store
        self._timing = timing
        self._restored = restored
        self._setup: tuple[TuningMode, Schedule, Policy] | None = None  # what the state depends on
        failed_k = restored.failed_k if restored else frozenset[int]()
        main, other = (
            LaunchSide(
                PushedTables(
                    engines.client,
                    engines.versions,
                    uid=uid,
                    lease=timing.push_lease,
                    renewal=timing.renewal,
                    failed_k=failed,
                    clock=clock,
                )
            )
            for failed in (failed_k, frozenset[int]())
        )
        if restored is not None:
            main.estimates, main.profile = restored.estimates, restored.profile
        self._sides = LaunchSides(main, other, apart=restored is not None and restored.adaptive)
        self._launched = UnpushedPods()
        self._bare = UnpushedPods()
        self._engine_infos = EngineInfos(engines.client)
        relaunches = restored.relaunches if restored else RelaunchState()
        self._launches = LaunchTuner(api_server, relaunches, timeout_seconds=timing.order)
        self._ready: frozenset[str] = frozenset()
        self._settled_at = float("-inf")
        self._at = float("-inf")  # time of the last tick
        self._probes = 0
        self._early = True  # whether this tick has no measurements

    @property
    def measured_until(self) -> float | None:
        """Unix seconds from which on samples are still needed; None without a confirmed pod."""
        spans = (*self._launched.spans.values(), *self._bare.spans.values())
        sides = (self._main.pushed.measured_until, self._other.pushed.measured_until)
        needed = (*sides, *(span.until for span in spans))
        return min((at for at in needed if at is not None), default=None)

    def starting_pods(self, model: TunedModel) -> tuple[tuple[EnginePod, Push], ...]:
        """Starting pods that will take pushes, each with the last push."""
        if not model.can.live_schedule:
            return ()
        pods = (pod for pod in model.starting_pods if pod.drafts)
        orders = ((pod, self._sides.of(pod).pushed.order) for pod in pods)
        return tuple((pod, order) for pod, order in orders if order is not None)

    async def renew(self, model: TunedModel, *, older: float) -> bool:
        """Renew the schedules of the pods that confirmed theirs at least so many seconds ago.

        False if one of them did not confirm it again; then the model needs a tick.
        """
        return await self._sides.renew(model, older=older)

    def renewal_due(self, model: TunedModel, *, older: float) -> bool:
        """Whether `renew` would push anything."""
        return self._sides.renewal_due(model, older=older)

    @property
    def has_pushed(self) -> bool:
        """Whether a tick has pushed anything."""
        return self._main.pushed.order is not None

    @property
    def _main(self) -> LaunchSide:
        return self._sides.main

    @property
    def _other(self) -> LaunchSide:
        return self._sides.other

    @property
    def snapshot(self) -> TunerSnapshot | None:
        """The state for a later process; None if nothing is tuned."""
        if self._main.state is None or self._setup is None or self._setup[0] is TuningMode.OFF:
            return None
        mode, static, _ = self._setup
        return TunerSnapshot(
            mode=mode,
            static=static,
            state=self._main.state,
            estimates=self._main.estimates,
            failed_k=self._main.pushed.failed_k,
            relaunches=self._launches.state,
            profile=self._main.profile,
            adaptive=self._sides.apart,
        )

    async def tick(self, model: TunedModel, measured: Measured, *, now: float) -> TickOutcome:
        """Observe, decide and actuate once. now: unix seconds."""
        policy = self._continue(model)
        self._sides.follow(model)
        self._follow_clock(now)
        # An early tick follows a change, such as an engine that started again and lost its schedule.
        self._early = measured is None
        term, rule = self._engines.term(), self._permission(model, now)
        tick = Tick(model, policy, rule, term, now, self._timing.tick)
        live, drafting = model.can.live_schedule, self._sides.pods(model)
        others = self._sides.other_pods(model)
        reporting = model.pods if model.can.reads_state else ()
        observed, compared, bare = self._observe(tick, measured)
        before = (self._main.pushed.wanted or self._tuner_state.schedule) if live else launched_table(model)
        reset = self._reset_if_requested(tick)
        # Until a pod with a drafter is measured, the others must not count as the whole model.
        apart = bare if observed or not drafting else ()
        fresh = not self._tuner_state.learning.known
        if self._main.profile is None and (fresh or measured is not None):
            # The first decision about a launch uses the profile that its engines measured, and so does the
            # first push to a pod that serves no request yet.
            infos = await self._engine_infos.of(reporting)
            self._main.follow_profiles(drafting, infos)
        decides = tick.decides and reset is None
        decision = self._decide(tick, observed, apart, compared) if decides else None
        wanted = tick.wanted(decision, self._tuner_state)
        teaching = self._main.teaching(model, rule, decision, drafting, self._engine_infos.known)
        push, counterpart, infos = await asyncio.gather(
            self._push(tick, self._main, drafting, wanted, teaching),
            self._tune_others(tick, others, compared, observed, decides=decides),
            self._engine_infos.of(reporting),
        )
        infos = with_answers(infos, push)
        drafting_infos = infos_of(drafting, infos)
        self._main.follow_profiles(drafting, infos)
        self._other.follow_profiles(others, infos)
        probe = await self._probe(tick, decision, push)
        # Last, since it may have to wait for the API server.
        contrast = self._sides.contrast(model, decision, counterpart)
        launch = await self._launches.tick(model, policy, decision, rule, now, contrast=contrast)
        return TickOutcome(
            model=model,
            now=now,
            permission=rule,
            decision=decision,
            latency=self._main.latency if model.targets.inter_token else None,
            before=before,
            wanted=wanted,
            observed=Observed(
                observations=observed + compared + bare,
                error=measured if isinstance(measured, MetricsError) else None,
                note=_note(model, measured),
            ),
            actuated=Actuated(
                in_force=self._main.pushed.in_force if live else wanted if launched_pods(model) else None,
                push=push,
                fast_loop=described(teaching, self._main.pushed.fast_loops.values()),
                probe=probe,
                launched=None if live else launch_report(model),
                launch=launch,
            ),
            engines=EngineSummary(
                simulated=each_once(one.simulated for one in infos),
                cuda_graphs=each_once(one.cuda_graphs for one in infos),
                idle_drafter=each_once(one.idle_drafter for one in infos),
                max_num_seqs=model.max_num_seqs or batch_of_all(infos),
                profile=self._main.profile,
                differing=differing(self._main.profile, drafting_infos),
                other_versions=other_versions(model.pods, infos),
            ),
            reset=reset,
            adaptive=(self._sides.apart and model.trial is None) or model.always_adaptive,
        )

    async def _tune_others(
        self,
        tick: Tick,
        pods: Sequence[EnginePod],
        observed: tuple[Observation, ...],
        compared: tuple[Observation, ...],
        *,
        decides: bool,
    ) -> Decision | None:
        """Tune the pods of the other launch as the main ones, by what was learnt of them."""
        side, model = self._other, tick.model
        if not pods or not model.can.live_schedule:
            side.pushed.forget_pods()
            return None
        policy = usable(tick.policy, side.pushed.failed_k)
        if side.state is None or side.state.candidates != policy.candidates:
            side.state = TunerState.start(model.static, policy)
        decision = None
        if decides and observed:
            context = tick.context(side, side.state, observed, policy=policy)
            decision = side.decided(decide(replace(context, other_launch=compared)))
        wanted = tick.wanted(decision, side.state)
        teaching = side.teaching(model, tick.permission, decision, pods, self._engine_infos.known)
        push = await self._push(tick, side, pods, wanted, teaching)
        await self._probe(tick, decision, push)
        return decision

    def _continue(self, model: TunedModel) -> Policy:
        """The policy of this tick. The state is new if the user changed what it depends on."""
        policy = usable(model.policy, self._main.pushed.failed_k)
        # A target that the user changes costs no measurement.
        setup = (model.mode, model.static, policy.without_targets())
        if self._main.state is None or setup != self._setup:
            resumes = self._setup is None and model.mode is TuningMode.AUTO
            base = (last_reported(model) if resumes else None) or model.static
            restored = self._restored.state if self._restored is not None else None
            self._main.state = restored or TunerState.start(base, policy)
            self._setup, self._restored = setup, None
            self._other.forget()
        return policy.paced(model.relaunching)

    @property
    def _tuner_state(self) -> TunerState:
        assert self._main.state is not None, "a tick begins with `_continue`"
        return self._main.state

    def _follow_clock(self, now: float) -> None:
        """Set times in the future to now, after a clock that was ahead."""
        ahead, self._at = max(self._at, self._tuner_state.at or 0.0) - now, now
        if ahead > 0:
            self._main.state = not_ahead(self._tuner_state, now, ahead=ahead)
            if self._other.state is not None:
                self._other.state = not_ahead(self._other.state, now, ahead=ahead)
            self._launches.state = not_ahead(self._launches.state, now, ahead=ahead)
            self._settled_at = min(self._settled_at, now + self._timing.settle)

    def _permission(self, model: TunedModel, now: float) -> Permission:
        """Hold after a change of the ready pods, except for the first pods of a model."""
        ready = frozenset(pod.name for pod in model.pods)
        if ready != self._ready:
            if ready and self._ready:
                self._settled_at = now + self._timing.settle
            self._ready = ready
        return permission(
            PermissionInput(model.instructions, model.mode, now, self._settled_at, model.returned_table)
        )

    def _reset_if_requested(self, tick: Tick) -> str | None:
        """Start as for a new model. Returns why, in a sentence; None without a request.

        A pause keeps the schedule, and the facts of engines stay.
        """
        cause = self._store.reset(tick.model)
        if cause is None:
            return None
        state, static = TunerState.start(tick.model.static, tick.policy), tick.model.static
        if tick.permission.reason is TuningReason.PAUSED:
            state = replace(state, schedule=self._tuner_state.schedule)
        self._main.state, self._main.estimates = state, {}
        self._other.forget()
        self._launches.forget()
        return f"Outrider reset the tuner, because {cause}. Tuning begins with the static schedule {static}."

    def _observe(
        self, tick: Tick, measured: Measured
    ) -> tuple[tuple[Observation, ...], tuple[Observation, ...], tuple[Observation, ...]]:
        """Observations of the main side, of the other one, and of the pods without a drafter."""
        model, now = tick.model, tick.now
        self._launched.follow(() if model.can.live_schedule else launched_pods(model), now)
        self._bare.follow([pod for pod in model.pods if not pod.drafts], now)
        if measured is None or isinstance(measured, MetricsError):
            return (), (), ()
        age = self._timing.max_sample_age
        metrics = PodMetricsReader(model.namespace, model.metrics, measured, now, age)
        bare = self._bare.observe(metrics)
        if not model.can.live_schedule:
            return self._launched.observe(metrics), (), bare
        ours = self._main.pushed.observe(self._sides.pods(model), metrics)
        theirs = self._other.pushed.observe(self._sides.other_pods(model), metrics)
        return ours, theirs, bare

    def _decide(
        self,
        tick: Tick,
        observed: tuple[Observation, ...],
        bare: tuple[Observation, ...],
        compared: tuple[Observation, ...],
    ) -> Decision:
        context = tick.context(self._main, self._tuner_state, observed, policy=tick.policy)
        return self._main.decided(decide(replace(context, without_drafter=bare, other_launch=compared)))

    async def _push(
        self,
        tick: Tick,
        side: LaunchSide,
        pods: Sequence[EnginePod],
        wanted: Schedule,
        teaching: Teaching,
    ) -> PushReport | None:
        if not tick.model.can.live_schedule:
            return None
        model, taught = teaching.cost_model, teaching.pods
        return await side.pushed.push(
            pods, wanted, term=tick.term, cost_model=model, taught=taught, all_pods=self._early
        )

    async def _probe(
        self, tick: Tick, decision: Decision | None, push: PushReport | None
    ) -> ProbeReport | None:
        model = tick.model
        if decision is None or decision.probe is None or push is None or model.mode is not TuningMode.AUTO:
            return None
        if not model.can.probes:
            return None
        self._probes += 1
        return await start_probe(
            self._engines.client,
            decision.probe,
            id=f"{tick.term}-{self._probes}",
            pods=model.pods,
            push=push,
            term=tick.term,
            tick_seconds=self._timing.tick,
        )


def _note(model: TunedModel, measured: Measured) -> str:
    pods = (PodKey(model.namespace, pod.name) for pod in model.pods)
    return measured.note(pods) if isinstance(measured, Measurements) else ""
