"""Errors of requests to an engine.

EngineError has these subclasses:

- EngineUnreachable: no complete answer in time (refused, reset, cut off, DNS, timeout).
- EngineProtocolError: an answer outside of the contract, or a request that cannot be sent.
- EngineDefect: an error in the operator itself.
- NotSent: this process no longer leads, so it sent nothing.
- PushRefused: the engine refused and changed nothing.
  - StaleTerm: a newer operator or epoch is in force.
  - ProbeRunning: another probe is running.
  - SignatureRefused: the engine did not accept the signature, or its plugin has no signatures.
  - LiveTuningImpossible: the engine cannot change its schedule while it runs.
"""

from __future__ import annotations

_KEY_ADVICE = (
    "a pod reads a new key within two minutes. If this stays, check the plugin version in its image, "
    "and that it reads this model's key"
)


class EngineError(Exception):
    """Base of all errors that `EngineClient` raises, and of failures reported for a pod."""


class EngineUnreachable(EngineError):
    """No answer in time. Retry at the next tick."""


class EngineProtocolError(EngineError):
    """The answer is outside of the control contract: no plugin, or another version of it.

    Or the request cannot be sent, because HTTP cannot represent its address or UID.
    """


class EngineDefect(EngineError):
    """An error in the operator itself during a request to this engine. The log has the traceback."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"internal error, see the operator's log: {type(error).__name__}")


class NotSent(EngineError):
    """This process no longer leads, so it did not send the request. Another process may lead."""

    def __init__(self) -> None:
        super().__init__("not sent, because this process no longer holds the Lease")


class PushRefused(EngineError):
    """The engine refused the schedule and kept its own. ``reason`` is stable, from the contract."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason


class StaleTerm(PushRefused):
    """(term, epoch) is older than the one in force: another process leads, or this tick is late."""


class ProbeRunning(PushRefused):
    """The engine runs one probe at a time, and another one is still running."""


class SignatureRefused(PushRefused):
    """The engine does not know this operator's key, or its plugin uses another authentication."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, f"{message}; {_KEY_ADVICE}")


class LiveTuningImpossible(PushRefused):
    """This engine cannot change its schedule while it runs; the message says why."""
