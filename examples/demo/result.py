"""What a run of the demo writes to ``result.json``."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Base: immutable, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Throughput(Record):
    """Tokens per second of a static arm: its slices before and after Outrider's lap."""

    mean: float | None
    slices: list[float | None]


class PhaseResult(Record):
    """One phase, in tokens per second of all streams together."""

    phase: str
    prompts: str
    streams: int
    seconds: float
    outrider_whole_phase: float | None
    """All of Outrider's phase, with ramp, trials and the K it started with."""
    outrider_second_half: float | None
    """The second half of it, after most of the learning."""
    static_zero: Throughput
    static_largest: Throughput
    k_at_start: int | None
    k_at_end: int | None
    acceptance_rate: float | None
    """Accepted over drafted tokens in Outrider's phase."""


class MoveResult(Record):
    """A change of K that the tuner chose, at the load of that moment; trials are left out."""

    seconds: float
    """Since the start of Outrider's lap."""
    phase: str
    streams: int
    from_k: int
    to_k: int
    reason: str


class DecisionResult(Record):
    """A decision as the model's status reported it."""

    time: str
    from_table: str
    to_table: str
    reason: str
    message: str
    expected_gain: float | None
    measured_gain: float | None


class Requests(Record):
    """Counts over all laps."""

    finished: int
    failed: int
    errors: list[str]


class Conditions(Record):
    """What the figures were measured on."""

    command: str
    started: str
    cluster: str
    kubernetes_version: str
    engine_image: str
    engine_version: str
    outrider_version: str
    client_image: str
    node_cores: int
    node_memory: str
    client_machine: str
    max_tokens: int
    temperature: float
    largest_k: int
    candidates: list[int]
    static_schedule: str


class Durations(Record):
    """Wall time in seconds."""

    until_ready: float
    laps: float
    total: float


class Sample(Record):
    """One point of the common time axis. ``seconds``: since the first lap began; the count ended then."""

    seconds: float
    covered_seconds: float
    """How long the count took."""
    arm: str
    lap: int
    phase: str
    streams: int
    tokens: int


class StatusSample(Record):
    """The model's status at one time."""

    seconds: float
    table: str | None
    acceptance_rate: float | None


class AcceptanceSample(Record):
    """Accepted over drafted tokens around one time."""

    seconds: float
    rate: float


class Result(Record):
    """Everything that one run found. ``failures`` is empty when it passed."""

    passed: bool
    failures: list[str]
    phases: list[PhaseResult]
    moves: list[MoveResult]
    decisions: list[DecisionResult]
    pod_restarts: int
    requests: Requests
    conditions: Conditions
    durations: Durations
    samples: list[Sample]
    statuses: list[StatusSample]
    acceptance: list[AcceptanceSample]

    def write(self, folder: Path) -> Path:
        """Write ``result.json`` and return its path."""
        path = folder / "result.json"
        path.write_text(self.model_dump_json(indent=2) + "\n")
        return path
