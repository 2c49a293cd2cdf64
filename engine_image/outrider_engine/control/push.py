"""Who may set the schedule and for how long: fencing by (term, epoch) and a lease.

Pure: the clock is a parameter, in monotonic seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from outrider_engine.control.parsing import number_up_to, parse_fence, parse_schedule, require_keys
from outrider_protocol.control_api import Fence, Push, Reason, Refusal
from outrider_protocol.cost_model import CostModelError, parse_cost_model
from outrider_protocol.engine_state import Source
from outrider_protocol.schedule import Schedule

MAX_LEASE_SECONDS = 3600.0


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

    def require(self, values: frozenset[int]) -> None:
        """Refuse a K that the engine was not launched with, that failed its self-test, or that its release
        computes incorrectly.

        Raises:
            Refusal: `Reason.NOT_CAPTURED`.
        """
        if missing := sorted(values - self.captured):
            have = sorted(self.captured)
            raise Refusal(Reason.NOT_CAPTURED, f"the engine was launched without K={missing}; it has {have}")
        if broken := sorted(values & self.failed):
            raise Refusal(
                Reason.NOT_CAPTURED,
                f"K={broken} failed this engine's self-test, or its release answers incorrectly with it",
            )


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
    def pushed_schedule(self) -> Schedule | None:
        """The pushed schedule while its lease is valid, else None: the static schedule is in force."""
        return self.last_push.schedule if self.last_push and self.source is Source.PUSHED else None

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
            raise Refusal(Reason.STALE_EPOCH, f"{push.fence} is older than {last.fence}")
        if push.fence == last.fence and not _same_schedule(push, last, limits):
            raise Refusal(Reason.STALE_EPOCH, f"{push.fence} was accepted with another schedule")
        if push.fence == last.fence and not _same_cost_model(push, last):
            raise Refusal(Reason.STALE_EPOCH, f"{push.fence} was accepted with another cost model")
    limits.require(push.schedule.values())
    return Control(last_push=push, lease_ends_at=now + push.lease_seconds)


def require_in_force(control: Control, fence: Fence) -> None:
    """Refuse a fence other than that of the pushed schedule in force.

    Raises:
        Refusal: `Reason.STALE_EPOCH`.
    """
    if control.last_push is None or control.source is not Source.PUSHED:
        raise Refusal(Reason.STALE_EPOCH, f"{fence} is not in force; the static schedule is")
    if fence != control.last_push.fence:
        raise Refusal(Reason.STALE_EPOCH, f"{fence} is not in force; {control.last_push.fence} is")


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
    keys = ("term", "epoch", "schedule", "leaseSeconds")
    body = require_keys(value, "the body", *keys, optional=("costModel",))
    push = Push(
        fence=parse_fence(body),
        schedule=parse_schedule(body["schedule"]),
        lease_seconds=number_up_to(body["leaseSeconds"], "leaseSeconds", MAX_LEASE_SECONDS),
    )
    if body.get("costModel") is None:
        return push
    try:
        return replace(push, cost_model=parse_cost_model(body["costModel"]))
    except CostModelError as error:
        return replace(push, cost_model_fault=f"the cost model cannot be read: {error}")


def _same_schedule(push: Push, other: Push, limits: Limits) -> bool:
    return push.schedule.dense(limits.max_num_seqs) == other.schedule.dense(limits.max_num_seqs)


def _same_cost_model(push: Push, other: Push) -> bool:
    return (push.cost_model, push.cost_model_fault) == (other.cost_model, other.cost_model_fault)
