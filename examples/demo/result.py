"""What a run of the demo writes to ``result.json``."""

from __future__ import annotations

from pathlib import Path

from examples.demo.phases import Arm
from examples.kit.conditions import Surroundings
from examples.kit.records import Count, DecisionSample, Record, Requests, StatusSample, Stretch


class Throughput(Record):
    """Tokens per second with fixed K: of each interval in a phase, and their mean."""

    mean: float | None
    slices: list[float | None]


class OwnPhase(Record):
    """Outrider's part of one phase, in tokens per second of all streams together."""

    phase: str
    prompts: str
    streams: int
    seconds: float
    outrider_whole_phase: float | None
    """All of its part, with learning, ramps and the K it started with."""
    outrider_settled: float | None
    """What counts of it, after learning."""
    k_at_start: int | None
    """K of the schedule at this load. The engine may choose another at each step."""
    k_at_end: int | None
    k_in_use: float | None
    """K in the mean over the engine's steps, after learning."""
    steps_by_k: dict[int, float]
    """The engine's steps after learning, by their K. Steps whose requests drafted with different K are left
    out."""
    chosen_by_engine: float | None
    """Ratio of all steps after learning for which the engine chose K; the schedule chose the others."""
    acceptance_rate: float | None
    """Accepted over drafted tokens in the phase."""


class PhaseResult(OwnPhase):
    """One phase, with the static arms beside."""

    static_zero: Throughput
    static_largest: Throughput


class Move(Record):
    """A change of the schedule's K at the load of that moment, as the tuner chose it, without probes."""

    seconds: float
    """Of Outrider's own time, without what other arms drove."""
    phase: str
    streams: int
    from_k: int
    to_k: int
    reason: str


class Conditions(Surroundings):
    """What the figures were measured on."""

    started: str
    client_image: str
    max_tokens: int
    temperature: float
    largest_k: int
    candidates: list[int]
    static_schedule: str
    on_gpus: bool

    @property
    def computed(self) -> str:
        """Where."""
        return f"computed on {'GPUs' if self.on_gpus else 'this CPU'}"


class Durations(Record):
    """Wall time in seconds."""

    until_ready: float
    driven: float
    total: float


class ArmStretch(Stretch):
    """One load as an arm drove it, without a break."""

    arm: Arm
    uncounted: float
    """Seconds at its beginning that no comparison has: the ramp of an interval, or all of the learning."""

    @property
    def counted(self) -> tuple[Count, ...]:
        """What comparisons have of it."""
        since = self.start + self.uncounted
        return tuple(one for one in self.counts if one.time - one.seconds / 2 >= since)

    def compares(self, time: float) -> bool:
        """Whether a time lies in what comparisons have of it."""
        return self.start + self.uncounted <= time <= self.end


class AcceptanceSample(Record):
    """Accepted over drafted tokens around one time, in unix seconds. drafted: tokens, what it weighs."""

    time: float
    rate: float
    drafted: float


class StepsSample(Record):
    """K over the engine's steps between two scrapes, in the mean. time: unix seconds, in their middle."""

    time: float
    k: float


class Simulated(Record):
    """Outrider's run on simulated engines, which sleep the step times of a GPU and compute nothing."""

    engine: str
    """The GPU's name, as the engines report it."""
    served_name: str
    image: str
    candidates: list[int]
    late: float | None
    """Relative excess of the real over the scheduled step times; None if it was not counted."""
    phases: list[OwnPhase]
    moves: list[Move]
    decisions: list[DecisionSample]
    pod_restarts: int
    requests: Requests
    stretches: list[ArmStretch]
    statuses: list[StatusSample]
    acceptance: list[AcceptanceSample]
    k_in_use: list[StepsSample]

    @property
    def title(self) -> str:
        """Above every figure of it."""
        return f"Step times of an H100 ({self.engine}), simulated: nothing is computed"


class Result(Record):
    """Everything that one run found. ``failures`` is empty when it passed."""

    passed: bool
    failures: list[str]
    notes: list[str]
    """What a reader of the figures must know, one sentence each."""
    phases: list[PhaseResult]
    moves: list[Move]
    decisions: list[DecisionSample]
    pod_restarts: int
    requests: Requests
    conditions: Conditions
    durations: Durations
    stretches: list[ArmStretch]
    statuses: list[StatusSample]
    acceptance: list[AcceptanceSample]
    k_in_use: list[StepsSample]
    simulated: Simulated | None
    """None without a run on simulated engines."""

    def write(self, folder: Path) -> Path:
        """Write ``result.json`` and return its path."""
        path = folder / "result.json"
        path.write_text(self.model_dump_json(indent=2) + "\n")
        return path
