"""One model's tuning: observe, decide, actuate. Holds what must survive from tick to tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from outrider.api.reasons import ConditionType
from outrider.api.schedule import Schedule
from outrider.api.speculation import TuningMode
from outrider.controller.actuation import EnginePod, PushReport, push_to_all
from outrider.controller.fleet import TunedModel
from outrider.engine.client import EngineClient, Push
from outrider.engine.errors import EngineUnreachable
from outrider.telemetry.series import PodKey, PodSeries
from outrider.telemetry.source import MetricsError
from outrider.telemetry.windows import build_window
from outrider.tuning.decision import Decision
from outrider.tuning.law import decide
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState
from outrider.tuning.window import Observation, Window

Measured = Mapping[PodKey, PodSeries] | MetricsError
"""One answer of the metrics source for all models, or why there is none."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of the loop, in seconds."""

    push_lease: float
    """How long an engine keeps a pushed table without renewal."""
    max_sample_age: float
    """Older samples are stale: hold."""


@dataclass(frozen=True, slots=True)
class TickOutcome:
    """Everything that one tick found out and did about one model."""

    model: TunedModel
    now: float  # unix seconds
    observations: tuple[Observation, ...]
    metrics_error: MetricsError | None
    decision: Decision | None  # None in mode Off
    before: Schedule  # wanted before this tick
    wanted: Schedule
    in_force: Schedule | None  # what at least one pod confirmed last; None before that
    push: PushReport | None  # None without ready pods


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


class ModelTuner:
    """Tunes one model. Not for concurrent use."""

    def __init__(self, engines: EngineClient, timing: Timing) -> None:
        self._engines = engines
        self._timing = timing
        self._footing: _Footing | None = None
        self._state: TunerState | None = None
        self._wanted: Schedule | None = None
        self._in_force: Schedule | None = None
        self._epoch = 0
        self._pods: dict[str, _KnownPod] = {}

    async def tick(self, model: TunedModel, measured: Measured, *, term: int, now: float) -> TickOutcome:
        """Observe, decide and actuate once. now: unix seconds."""
        state = self._continue(model)
        observations = self._observe(model, measured, now)
        decision = self._decide(model, state, observations, now)
        before = self._wanted or state.schedule
        wanted = decision.schedule if decision and model.mode is TuningMode.AUTO else model.static
        push = await self._actuate(model, wanted, term)
        return TickOutcome(
            model=model,
            now=now,
            observations=observations,
            metrics_error=measured if isinstance(measured, MetricsError) else None,
            decision=decision,
            before=before,
            wanted=wanted,
            in_force=self._in_force,
            push=push,
        )

    def _continue(self, model: TunedModel) -> TunerState:
        """The state to decide from; afresh when the user changed what it rests on."""
        footing = _Footing(model.mode, model.static, model.policy)
        if self._state is None or footing != self._footing:
            resumes = self._footing is None and model.mode is TuningMode.AUTO
            base = (_last_reported(model) if resumes else None) or model.static
            self._state, self._footing = TunerState.start(base, model.policy), footing
        return self._state

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
        return window

    def _decide(
        self, model: TunedModel, state: TunerState, observations: tuple[Observation, ...], now: float
    ) -> Decision | None:
        if model.mode is TuningMode.OFF or self._footing is None:
            return None
        in_force = model.static if model.mode is TuningMode.OBSERVE else None
        decision = decide(observations, state, policy=self._footing.policy, now=now, in_force=in_force)
        self._state = decision.state
        return decision

    async def _actuate(self, model: TunedModel, wanted: Schedule, term: int) -> PushReport | None:
        if wanted != self._wanted:
            self._wanted = wanted
            self._epoch += 1
        self._forget_absent(model.pods)
        if not model.pods:
            return None
        push = Push(wanted, term=term, epoch=self._epoch, lease_seconds=self._timing.push_lease)
        report = await push_to_all(self._engines, model.pods, push)
        self._remember(report, wanted)
        return report

    def _remember(self, report: PushReport, wanted: Schedule) -> None:
        for confirmed in report.confirmed:
            known = self._pods.get(confirmed.pod)
            if known is None or (known.boot_id, known.epoch) != (confirmed.boot_id, report.epoch):
                self._pods[confirmed.pod] = _KnownPod(confirmed.boot_id, report.epoch, confirmed.at)
            self._in_force = wanted
        for failed in report.failed:
            # A lost renewal leaves the table in force, and a restart would show in the boot id. An engine
            # that answers otherwise may run with another table until it confirms again.
            if not isinstance(failed.error, EngineUnreachable):
                self._pods.pop(failed.pod, None)

    def _forget_absent(self, pods: tuple[EnginePod, ...]) -> None:
        present = {pod.name for pod in pods}
        self._pods = {name: known for name, known in self._pods.items() if name in present}


def _last_reported(model: TunedModel) -> Schedule | None:
    """The table that an earlier process reported for this very spec, where it is still allowed."""
    speculation = model.status.speculation
    converged = model.status.condition(ConditionType.ACTUATION_CONVERGED)
    if speculation is None or not speculation.schedule or converged is None:
        return None
    if converged.observed_generation != model.generation:
        return None
    try:
        table = Schedule.from_wire([row.model_dump(by_alias=True) for row in speculation.schedule])
    except ValueError:
        return None
    return table if table.values() <= set(model.policy.candidates) else None
