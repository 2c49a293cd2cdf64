"""Contents of a model's status: whether engines serve and confirm, and the schedule in force."""

from __future__ import annotations

from outrider.api.conditions import ConditionStatus, ConditionType
from outrider.api.status import Status
from outrider_protocol.schedule import Schedule


def is_true(status: Status, condition: ConditionType) -> bool:
    """Whether the condition is there and True."""
    found = status.condition(condition)
    return found is not None and found.status is ConditionStatus.TRUE


def converged(status: Status, generation: int = 0) -> bool:
    """Whether every ready pod reads back the table that this generation of the spec asks for."""
    found = status.condition(ConditionType.ACTUATION_CONVERGED)
    if found is None or found.status is not ConditionStatus.TRUE:
        return False
    return found.observed_generation is None or found.observed_generation >= generation


def in_force(status: Status) -> str | None:
    """Return the schedule in force in one line, with as few rows as possible."""
    speculation = status.speculation
    if speculation is None or speculation.schedule is None:
        return speculation.schedule_summary if speculation else None
    rows = [row.model_dump(by_alias=True, exclude_none=True) for row in speculation.schedule]
    return str(Schedule.from_wire(rows).merged())


def simulated(status: Status) -> str | None:
    """What engines stand in for that compute nothing, such as h100_8b; None of engines that compute."""
    return status.speculation.simulated if status.speculation else None


def why(status: Status) -> str:
    """The conditions that are not as they should be, in one line."""
    bad = {ConditionType.PROGRESSING, ConditionType.DEGRADED}
    told = [
        f"{one.type}={one.status} {one.reason}: {one.message}"
        for one in status.conditions
        if (one.status is ConditionStatus.TRUE) is (one.type in bad)
    ]
    return "; ".join(told) or "waiting for the engines to confirm their table"


def k_at(table: str, streams: int) -> int:
    """K for a batch of this size by a table in its one-line form, such as ``8:3,*:0``."""
    for row in table.split(","):
        limit, k = row.split(":")
        if limit == "*" or streams <= int(limit):
            return int(k)
    raise ValueError(f"no open row in {table!r}")
