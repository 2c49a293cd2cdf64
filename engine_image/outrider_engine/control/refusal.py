"""Why a request to the control API is refused. A refused request changes nothing."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Stable reasons of the control API."""

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
