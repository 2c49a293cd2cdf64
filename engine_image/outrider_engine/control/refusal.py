"""Refusal of a request to the control API. A refused request changes nothing."""

from __future__ import annotations

from outrider_protocol.control_api import Reason


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
