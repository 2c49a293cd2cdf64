"""The engine's control API: what the operator sends, how it signs, and why an engine refuses.

docs/reference/control-api.md describes the routes; `outrider_protocol.engine_state` has the answers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum

from outrider_protocol.cost_model import CostModel
from outrider_protocol.schedule import Schedule

STATE_PATH = "/outrider/v1/state"
SCHEDULE_PATH = "/outrider/v1/schedule"
PROBE_PATH = "/outrider/v1/probe"

SCHEME = "Outrider-Ed25519"
"""The scheme in the header ``Authorization``."""
_KIND = "outrider-control-1"
"""A signature for another purpose or another form of request is invalid."""


def signed_bytes(*, method: str, path: str, pod_uid: str, body: bytes) -> bytes:
    """The signed bytes of a request: netstrings, so that no two requests have the same bytes."""
    fields = (_KIND, method, path, pod_uid, hashlib.sha256(body).hexdigest())
    return b"".join(b"%d:%b," % (len(field), field) for field in (text.encode() for text in fields))


class Reason(StrEnum):
    """Stable reasons of refusals. A refused request changes nothing."""

    UNAUTHORIZED = "Unauthorized"
    """Not signed, or not by the operator for this request to this pod."""
    STALE_EPOCH = "StaleEpoch"
    """(term, epoch) is older than the last accepted push, or equal with another schedule or cost model. For a
    probe: not that of the pushed schedule in force."""
    PROBE_RUNNING = "ProbeRunning"
    """Another probe runs; an engine runs one at a time."""
    TOO_LARGE = "TooLarge"
    """The body exceeds the size limit."""
    MALFORMED = "Malformed"
    """The body is not what the route takes."""
    NOT_CAPTURED = "NotCaptured"
    """A K that the engine was not launched with, or that failed the self-test."""
    LIVE_TUNING_IMPOSSIBLE = "LiveTuningImpossible"
    """This engine cannot change its schedule while it runs."""


HTTP_STATUS = {
    Reason.UNAUTHORIZED: 401,
    Reason.STALE_EPOCH: 409,
    Reason.PROBE_RUNNING: 409,
    Reason.TOO_LARGE: 413,
    Reason.MALFORMED: 422,
    Reason.NOT_CAPTURED: 422,
    Reason.LIVE_TUNING_IMPOSSIBLE: 503,
}


class Refusal(Exception):
    """A refused request. ``message`` is for people and never holds a secret."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message

    def to_wire(self) -> dict[str, str]:
        """The form that travels from the engine core to the API server and on to the client."""
        return {"reason": self.reason.value, "message": self.message}

    @classmethod
    def from_wire(cls, error: dict[str, str]) -> Refusal:
        """The inverse of `to_wire`."""
        return cls(Reason(error["reason"]), error["message"])


@dataclass(frozen=True, slots=True, order=True)
class Fence:
    """The order of pushes: the leadership term first, then the version of the schedule."""

    term: int
    epoch: int

    def __str__(self) -> str:
        return f"(term {self.term}, epoch {self.epoch})"


@dataclass(frozen=True, slots=True)
class Push:
    """A schedule to be in force for ``lease_seconds``, and a cost model for the fast loop.

    cost_model: None without one, or with one that cannot be read.
    cost_model_fault: why it cannot be read. The schedule is in force nevertheless.
    """

    fence: Fence
    schedule: Schedule
    lease_seconds: float
    cost_model: CostModel | None = None
    cost_model_fault: str | None = None

    def without_cost_model(self) -> Push:
        """The same for an engine that takes none."""
        return replace(self, cost_model=None)

    def to_wire(self) -> dict[str, object]:
        """The body of ``PUT /outrider/v1/schedule``, without a cost model that cannot be read."""
        model = {} if self.cost_model is None else {"costModel": self.cost_model.to_wire()}
        return model | {
            "term": self.fence.term,
            "epoch": self.fence.epoch,
            "schedule": self.schedule.to_wire(),
            "leaseSeconds": self.lease_seconds,
        }


@dataclass(frozen=True, slots=True)
class Slice:
    """One part of a probe: a K until ``steps`` steps or ``seconds`` of engine time in the bin.

    The one that comes first ends it.
    """

    num_speculative_tokens: int
    seconds: float | None = None
    steps: int | None = None

    def to_wire(self) -> dict[str, object]:
        """One of the ``slices`` of a probe, without what it leaves open."""
        wire = {"seconds": self.seconds, "steps": self.steps}
        given = {name: value for name, value in wire.items() if value is not None}
        return {"numSpeculativeTokens": self.num_speculative_tokens, **given}


@dataclass(frozen=True, slots=True)
class ProbeOrder:
    """One probe on top of the schedule that ``fence`` installed.

    id: a repeated one requests the same probe.
    low, high: the batch bin, inclusive; ``high`` is None for an open one.
    deadline_seconds: wall time after which the engine ends it, complete or not.
    """

    fence: Fence
    id: str
    low: int
    high: int | None
    slices: tuple[Slice, ...]
    deadline_seconds: float

    def to_wire(self) -> dict[str, object]:
        """The body of ``POST /outrider/v1/probe``."""
        last = {} if self.high is None else {"maxBatchSize": self.high}
        return {
            "id": self.id,
            "term": self.fence.term,
            "epoch": self.fence.epoch,
            "minBatchSize": self.low,
            **last,
            "slices": [part.to_wire() for part in self.slices],
            "deadlineSeconds": self.deadline_seconds,
        }

    def values(self) -> frozenset[int]:
        """Every K of the probe."""
        return frozenset(part.num_speculative_tokens for part in self.slices)

    def contains(self, batch_size: int) -> bool:
        """Whether a batch of this size is in the probed bin."""
        return self.low <= batch_size and (self.high is None or batch_size <= self.high)
