"""What one unit of the run left behind, raw. Times are unix seconds."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Base: immutable, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Count(Record):
    """What the load client counted in a period of ``seconds`` that ended at ``time``."""

    time: float
    seconds: float
    tokens: int
    requests: int
    failed: int
    errors: tuple[str, ...] = ()


class Stretch(Record):
    """One steady load as it was driven."""

    streams: int
    prompts: str
    counts: tuple[Count, ...]

    @property
    def load(self) -> str:
        """Such as ``code x8``."""
        return f"{self.prompts} x{self.streams}"

    @property
    def start(self) -> float:
        """When the load began."""
        return self.counts[0].time - self.counts[0].seconds

    @property
    def end(self) -> float:
        """When the last count was taken."""
        return self.counts[-1].time


class Slice(Record):
    """A table that was held. Only what lies between the two times counts."""

    arm: str
    since: float
    until: float


class SpeedupSample(Record):
    """``status.speculation.speedup``."""

    ratio: float
    low: float | None
    high: float | None
    reference: str
    measured_at: float


class StatusSample(Record):
    """The model's status at one time."""

    time: float
    table: str | None
    epoch: int | None
    acceptance_rate: float | None
    speedup: SpeedupSample | None


class DecisionSample(Record):
    """A decision as the model's status reported it."""

    time: float
    from_table: str
    to_table: str
    reason: str
    message: str


class Push(Record):
    """A table that the bench wanted. ``in_force``: when status confirmed it."""

    asked: float
    table: str
    in_force: float


class UnitRecord(Record):
    """One finished unit."""

    key: str
    arm: str
    number: int
    """Round, visit or repeat, from 0."""
    stretches: tuple[Stretch, ...]
    slices: tuple[Slice, ...] = ()
    statuses: tuple[StatusSample, ...] = ()
    decisions: tuple[DecisionSample, ...] = ()
    pushes: tuple[Push, ...] = ()
    gaps: tuple[str, ...] = ()
    """Ticks of a rule without a measurement, and why."""
    restarts: int = 0
    """Containers restarted and pods replaced meanwhile."""
    thrown_away: str | None = None
    """Why a first try of this unit does not count."""
    load_average: float = 0.0
    """Of the client's machine over the last minute."""
