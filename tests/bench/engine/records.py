"""What one unit of the run left behind, raw. Times are unix seconds."""

from __future__ import annotations

from examples.kit.records import DecisionSample, Record, StatusSample, Stretch


class Slice(Record):
    """A table that was held. Only what lies between the two times counts."""

    arm: str
    since: float
    until: float


class Push(Record):
    """A table that the bench wanted. ``in_force``: when status confirmed it."""

    asked: float
    table: str
    in_force: float


class ProbeSample(Record):
    """How many of the pods ran a probe at a time."""

    time: float
    pods: int
    probing: int


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
    """Why another try of this unit does not count."""
    late: float | None = None
    """Time that the latest stand-in lost, over that of its steps. None: real engines."""
    probes: tuple[ProbeSample, ...] = ()
    """Of stand-ins under Outrider."""
    load_average: float = 0.0
    """Of the client's machine over the last minute."""
