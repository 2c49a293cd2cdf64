"""Who may set the schedule and for how long: fencing by (term, epoch) and a lease.

Pure: the clock is a parameter, in monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from outrider_engine.control.refusal import Reason, Refusal
from outrider_engine.control.schedule import (
    Table,
    number_up_to,
    parse_table,
    require_captured,
    require_keys,
    whole_number,
)
from outrider_protocol.cost_model import CostModel, CostModelError, parse_cost_model

LONGEST_LEASE_SECONDS = 3600.0


class Source(StrEnum):
    """Where the schedule in force comes from."""

    STATIC = "Static"
    """No push since the engine started."""
    PUSHED = "Pushed"
    """A pushed schedule under a valid lease."""
    FALLBACK = "Fallback"
    """The lease of the last push ended; the static schedule is in force."""


@dataclass(frozen=True, slots=True, order=True)
class Fence:
    """The order of pushes: the leadership term first, then the version of the schedule."""

    term: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Push:
    """A schedule that a controller wants in force for ``lease_seconds``, and a cost model for the fast loop.

    cost_model: None without one, or with one that cannot be read.
    cost_model_fault: why it cannot be read. The schedule is in force nevertheless.
    """

    fence: Fence
    table: Table
    lease_seconds: float
    cost_model: CostModel | None = None
    cost_model_fault: str | None = None

    def to_wire(self) -> dict[str, object]:
        """The inverse of `parse_push`, without a cost model that cannot be read."""
        model = {} if self.cost_model is None else {"costModel": self.cost_model.to_wire()}
        return {
            "term": self.fence.term,
            "epoch": self.fence.epoch,
            "schedule": self.table.to_wire(),
            "leaseSeconds": self.lease_seconds,
            **model,
        }


@dataclass(frozen=True, slots=True)
class Limits:
    """The K that a schedule of one engine may have."""

    max_num_seqs: int
    captured: frozenset[int]
    failed: frozenset[int] = frozenset()
    """Captured K that failed the self-test."""

    @property
    def usable(self) -> frozenset[int]:
        """Every K that may be in force."""
        return self.captured - self.failed


@dataclass(frozen=True, slots=True)
class Control:
    """The last accepted push and the end of its lease.

    ``lease_ends_at``: monotonic seconds; None without a lease. The push stays known after its lease, since it
    still fences off older ones.
    """

    last_push: Push | None = None
    lease_ends_at: float | None = None

    @property
    def source(self) -> Source:
        """Where the schedule in force comes from."""
        if self.last_push is None:
            return Source.STATIC
        return Source.FALLBACK if self.lease_ends_at is None else Source.PUSHED

    @property
    def pushed_table(self) -> Table | None:
        """The pushed schedule while its lease is valid, else None: the static schedule is in force."""
        return self.last_push.table if self.last_push and self.source is Source.PUSHED else None

    def lease_remaining_seconds(self, now: float) -> float | None:
        """Seconds until the static schedule returns; None without a lease."""
        return None if self.lease_ends_at is None else max(0.0, self.lease_ends_at - now)


def accept(control: Control, push: Push, *, limits: Limits, now: float) -> Control:
    """Accept a push, or the renewal of the last one.

    Raises:
        Refusal: `Reason.STALE_EPOCH` or `Reason.NOT_CAPTURED`; ``control`` stays in force.
    """
    last = control.last_push
    if last is not None:
        if push.fence < last.fence:
            raise Refusal(Reason.STALE_EPOCH, f"{_name(push.fence)} is older than {_name(last.fence)}")
        if push.fence == last.fence and not _same_table(push, last, limits):
            raise Refusal(Reason.STALE_EPOCH, f"{_name(push.fence)} was accepted with another schedule")
        if push.fence == last.fence and not _same_cost_model(push, last):
            raise Refusal(Reason.STALE_EPOCH, f"{_name(push.fence)} was accepted with another cost model")
    require_captured(push.table.values(), limits.captured, failed=limits.failed)
    return Control(last_push=push, lease_ends_at=now + push.lease_seconds)


def require_in_force(control: Control, fence: Fence) -> None:
    """Refuse a fence other than that of the pushed schedule in force.

    Raises:
        Refusal: `Reason.STALE_EPOCH`.
    """
    if control.last_push is None or control.source is not Source.PUSHED:
        raise Refusal(Reason.STALE_EPOCH, f"{_name(fence)} is not in force; the static schedule is")
    if fence != control.last_push.fence:
        raise Refusal(
            Reason.STALE_EPOCH, f"{_name(fence)} is not in force; {_name(control.last_push.fence)} is"
        )


def lapse(control: Control, now: float) -> Control:
    """The control after every lease that ends at or before ``now``."""
    if control.lease_ends_at is None or now < control.lease_ends_at:
        return control
    return replace(control, lease_ends_at=None)


def parse_push(value: object) -> Push:
    """Read the body of ``PUT /outrider/v1/schedule``.

    A cost model that cannot be read never costs the schedule: the push has the cause in its place.

    Raises:
        Refusal: `Reason.MALFORMED`; the message names the field.
    """
    keys = frozenset({"term", "epoch", "schedule", "leaseSeconds"})
    body = require_keys(value, "the body", needed=keys, optional=frozenset({"costModel"}))
    push = Push(
        fence=parse_fence(body),
        table=parse_table(body["schedule"]),
        lease_seconds=number_up_to(body["leaseSeconds"], "leaseSeconds", LONGEST_LEASE_SECONDS),
    )
    if body.get("costModel") is None:
        return push
    try:
        return replace(push, cost_model=parse_cost_model(body["costModel"]))
    except CostModelError as error:
        return replace(push, cost_model_fault=f"the cost model cannot be read: {error}")


def parse_fence(body: Mapping[str, object]) -> Fence:
    """Read ``term`` and ``epoch``.

    Raises:
        Refusal: `Reason.MALFORMED`; the message names the field.
    """
    return Fence(
        term=whole_number(body["term"], "term", at_least=0),
        epoch=whole_number(body["epoch"], "epoch", at_least=0),
    )


def _same_table(push: Push, other: Push, limits: Limits) -> bool:
    return push.table.dense(limits.max_num_seqs) == other.table.dense(limits.max_num_seqs)


def _same_cost_model(push: Push, other: Push) -> bool:
    return (push.cost_model, push.cost_model_fault) == (other.cost_model, other.cost_model_fault)


def _name(fence: Fence) -> str:
    return f"(term {fence.term}, epoch {fence.epoch})"
