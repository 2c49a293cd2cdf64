from __future__ import annotations

from datetime import UTC, datetime

from examples.kit.records import Count
from outrider.api.conditions import Condition, ConditionStatus
from outrider.api.status import Status


def a_count(
    time: float, *, seconds: float = 1.0, tokens: int = 100, requests: int = 1, failed: int = 0
) -> Count:
    errors = ("boom",) * bool(failed)
    return Count(time=time, seconds=seconds, tokens=tokens, requests=requests, failed=failed, errors=errors)


def a_status(kind: str, status: str, *, generation: int | None = None) -> Status:
    """One condition."""
    condition = Condition(
        type=kind,
        status=ConditionStatus(status),
        reason="Because",
        observed_generation=generation,
        last_transition_time=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return Status(conditions=[condition])
