"""What can go wrong when an operator talks to an engine.

EngineError
├── EngineUnreachable     no answer in time: refused, reset, DNS, timeout
├── EngineProtocolError   an answer that is not of the contract
└── PushRefused           the engine said no; nothing changed
    ├── StaleTerm         a newer operator or epoch is in force
    ├── ProbeRunning      another probe is under way
    └── LiveTuningImpossible
"""

from __future__ import annotations


class EngineError(Exception):
    """Base of everything that `EngineClient` raises."""


class EngineUnreachable(EngineError):
    """No answer in time. Retry at the next tick."""


class EngineProtocolError(EngineError):
    """The answer is not of the control contract: an engine without the plugin, or another version."""


class PushRefused(EngineError):
    """The engine refused the table and kept its own. ``reason`` is stable, from the contract."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason


class StaleTerm(PushRefused):
    """(term, epoch) is older than the one in force: someone else leads, or this tick is late."""


class ProbeRunning(PushRefused):
    """The engine runs one probe at a time, and another one is not over yet."""


class LiveTuningImpossible(PushRefused):
    """This engine cannot change its table while it runs; the message says why."""
