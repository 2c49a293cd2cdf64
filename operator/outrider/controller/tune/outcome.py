"""The outcome of one tick: what was observed, decided and done. Conditions, Events and status rest on it."""

from __future__ import annotations

from dataclasses import dataclass, field

from outrider.api.tuning import Actuation, TuningMode
from outrider.controller.fleet import TunedModel
from outrider.controller.tune.actuation import ProbeReport, PushReport
from outrider.controller.tune.engine_info import OtherVersion
from outrider.controller.tune.launching import LaunchOutcome, LaunchReport
from outrider.controller.tune.permission import Permission
from outrider.controller.tune.step_time_profiles import Differing, LaunchProfile
from outrider.telemetry.source import MetricsError
from outrider.tuning.decision import Decision, LatencyOutlook
from outrider.tuning.observe.window import Observation
from outrider_protocol.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Observed:
    """The measurements of the pods."""

    observations: tuple[Observation, ...] = ()
    error: MetricsError | None = None
    note: str = ""  # a defect of usable measurements, with its remedy


@dataclass(frozen=True, slots=True)
class EngineSummary:
    """What engines report once."""

    simulated: tuple[str, ...] = ()  # the GPUs and models that simulated engines imitate
    cuda_graphs: tuple[str, ...] = ()  # vLLM's modes of CUDA graphs
    idle_drafter: tuple[str, ...] = ()  # what drafters do in decode steps with K=0
    max_num_seqs: int | None = None  # maximum batch size; None if unknown
    profile: LaunchProfile | None = None  # step times, measured by engines of this launch before they served
    differing: tuple[Differing, ...] = ()  # pods that differ from the profile
    other_versions: tuple[OtherVersion, ...] = ()  # pods whose vLLM is not the release of the spec


@dataclass(frozen=True, slots=True)
class Actuated:
    """What the engines got and confirmed."""

    in_force: Schedule | None = None  # the schedule that at least one pod confirmed last; None before that
    push: PushReport | None = None  # None without ready pods, and if schedules come with the launch
    fast_loop: str | None = None  # how engines choose K at each step; None if the schedule chooses
    probe: ProbeReport | None = None  # None if no probe was wanted
    launched: LaunchReport | None = None  # None if schedules are pushed
    launch: LaunchOutcome | None = None  # None if the tuner may not judge the launch

    @property
    def replicas(self) -> int:
        """Number of pods that use the wanted schedule."""
        if self.launched is not None:
            return self.launched.running
        return len(self.push.confirmed) if self.push else 0


@dataclass(frozen=True, slots=True)
class TickOutcome:
    """The observations and actions of one tick for one model."""

    model: TunedModel
    now: float  # unix seconds
    permission: Permission
    decision: Decision | None  # None in mode Off, and if the tuner does not decide
    before: Schedule  # wanted before this tick
    wanted: Schedule
    observed: Observed = field(default_factory=Observed)
    actuated: Actuated = field(default_factory=Actuated)
    engines: EngineSummary = field(default_factory=EngineSummary)
    adaptive: bool = False  # most engines with a drafter verify adaptively
    latency: LatencyOutlook | None = None  # the last one; None without a target of the pause between outputs
    reset: str | None = None  # why this tick reset the tuner, in a sentence; None if it did not

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
