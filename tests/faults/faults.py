"""What may happen to a request between the operator and a server, as data. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<part>.+))?"
)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, by what it is about. name: "" for a list or a creation. part: the subresource."""

    method: str
    plural: str
    name: str = ""
    part: str = ""
    watch: bool = False

    @classmethod
    def of(cls, method: str, path: str, query: Sequence[tuple[str, str]] = ()) -> Call:
        """The call of a request to the API server, or to another server, whose path is then the plural."""
        found = _PATH.fullmatch(path)
        if found is None:
            return cls(method, path)
        watch = any(name == "watch" and value not in ("", "false", "0") for name, value in query)
        return cls(method, found["plural"], found["name"] or "", found["part"] or "", watch)

    @property
    def writes(self) -> bool:
        """Whether it changes an object."""
        return self.method != "GET"

    def __str__(self) -> str:
        """``PATCH speculativemodels/m/status``."""
        what = "/".join(filter(None, (self.plural, self.name, self.part)))
        return f"{'WATCH' if self.watch else self.method} {what}"


class Effect(StrEnum):
    """What happens to a call that a fault matches."""

    KILL_BEFORE = "the operator is killed, and the server never sees the call"
    KILL_AFTER = "the operator is killed once the server has answered"
    DELAY = "the call waits for `seconds`"
    STATUS = "the answer is `status`, and the server never sees the call"
    CUT = "the connection ends, and the server never sees the call"
    LOSE_REPLY = "the server answers, and the connection ends"
    TRUNCATE = "half of the answer arrives"
    HANG = "half of the answer arrives, and nothing more until the fault is lifted"
    REWRITE = "the answer is what `rewrite` makes of the server's"
    GARBAGE = "the answer is no JSON"
    FREEZE = "there is no answer until the fault is lifted"
    OLD = "a list is the first one that this path ever had"
    SILENT = "a watch delivers nothing more until the fault is lifted"
    ERROR_EVENT = "a watch delivers an ERROR with `status` and ends"
    DROP_EVENT = "a watch loses an event"
    DUPLICATE_EVENT = "a watch delivers an event twice"
    SWAP_EVENTS = "a watch delivers an event after its successor"


OF_WATCHES = frozenset(
    {Effect.SILENT, Effect.ERROR_EVENT, Effect.DROP_EVENT, Effect.DUPLICATE_EVENT, Effect.SWAP_EVENTS}
)
"""Effects on the events of watches, also of those that are open already."""
KILLS = frozenset({Effect.KILL_BEFORE, Effect.KILL_AFTER})


@dataclass(frozen=True, slots=True)
class Fault:
    """An effect, and the calls that have it.

    method, plural, name, part: "" for any. watch: None for both kinds.
    after: matching calls that pass before. times: calls that have the effect; None for all that follow.
    every: of those, each one of so many.
    seconds: of a delay. status: of an answer. retry_after: seconds in its header; None for no header.
    rewrite: makes the body of an answer from the server's.
    """

    effect: Effect
    method: str = ""
    plural: str = ""
    name: str = ""
    part: str | None = None
    watch: bool | None = False
    after: int = 0
    times: int | None = None
    every: int = 1
    seconds: float = 0.2
    status: int = 500
    retry_after: int | None = None
    rewrite: Callable[[bytes], bytes] = bytes

    @classmethod
    def at(cls, effect: Effect, call: Call, *, after: int = 0) -> Fault:
        """The effect on one occurrence of exactly this call."""
        return cls(
            effect, call.method, call.plural, call.name, call.part, watch=call.watch, after=after, times=1
        )

    def matches(self, call: Call) -> bool:
        """Whether it is about this call, however many there were."""
        return (
            self.method in ("", call.method)
            and self.plural in ("", call.plural)
            and self.name in ("", call.name)
            and self.part in (None, call.part)
            and self.watch in (None, call.watch)
        )


class Armed:
    """A fault in force, with the number of calls that it has met."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.met = 0

    def strikes(self, call: Call) -> bool:
        """Count a call, and say whether it has the effect."""
        if not self.fault.matches(call):
            return False
        self.met += 1
        ordinal = self.met - self.fault.after
        if ordinal < 1 or ordinal % self.fault.every:
            return False
        return self.fault.times is None or ordinal <= self.fault.times * self.fault.every

    @property
    def struck(self) -> bool:
        """Whether a call had the effect."""
        return self.met >= self.fault.after + self.fault.every
