"""What can go wrong when an operator talks to an engine.

EngineError
├── EngineUnreachable     no whole answer in time: refused, reset, cut off, DNS, timeout
├── EngineProtocolError   an answer that is not of the contract, or a request that cannot be written
├── EngineDefect          an error in the operator itself
└── PushRefused           the engine said no; nothing changed
    ├── StaleTerm         a newer operator or epoch is in force
    ├── ProbeRunning      another probe is under way
    ├── SignatureRefused  not taken for the operator's, or by a plugin that knows no signatures
    └── LiveTuningImpossible
"""

from __future__ import annotations

_KEY_ADVICE = (
    "a pod takes a new key within two minutes; where this stays, its image has another version of the "
    "plugin, or it reads another key than the model's"
)


class EngineError(Exception):
    """Base of everything that `EngineClient` raises, and of what is said of a pod that failed."""


class EngineUnreachable(EngineError):
    """No answer in time. Retry at the next tick."""


class EngineProtocolError(EngineError):
    """The answer is not of the control contract: an engine without the plugin, or another version.

    Or the request cannot be written: an address or a UID that HTTP cannot carry.
    """


class EngineDefect(EngineError):
    """An error in the operator itself, while it spoke to this engine. Its traceback is in the log."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"internal error, see the operator's log: {type(error).__name__}")


class PushRefused(EngineError):
    """The engine refused the table and kept its own. ``reason`` is stable, from the contract."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason


class StaleTerm(PushRefused):
    """(term, epoch) is older than the one in force: someone else leads, or this tick is late."""


class ProbeRunning(PushRefused):
    """The engine runs one probe at a time, and another one is not over yet."""


class SignatureRefused(PushRefused):
    """The engine does not know this operator's key; or its plugin asks for something else."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, f"{message}; {_KEY_ADVICE}")


class LiveTuningImpossible(PushRefused):
    """This engine cannot change its table while it runs; the message says why."""
