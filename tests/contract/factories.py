"""Short ways to say what is pushed."""

from __future__ import annotations

Rows = list[dict[str, int]]


def a_constant(k: int) -> Rows:
    """The same K for every batch size."""
    return [{"numSpeculativeTokens": k}]


def a_push(
    *, term: int, epoch: int = 1, schedule: Rows | None = None, lease_seconds: float = 300
) -> dict[str, object]:
    """The body of a PUT."""
    return {
        "term": term,
        "epoch": epoch,
        "schedule": a_constant(3) if schedule is None else schedule,
        "leaseSeconds": lease_seconds,
    }
