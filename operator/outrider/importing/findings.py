"""What an import could not carry, and what needs a look, each by name with the reason and the remedy."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from outrider.api.text import in_one_line, shortened
from outrider.importing.secrets import holds_secret

_MAX_NAME = 120
_HIDDEN = "it looks secret, so it is not shown; put it into a Secret"


class Outcome(StrEnum):
    """What became of a part of the source."""

    DROPPED = "not carried"
    """The SpeculativeModel does not have it."""
    CHECK = "check"
    """The SpeculativeModel has it, or something in its place, that differs from the source."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One part of the source, with the reason and what to do. It never holds a value that may be secret."""

    outcome: Outcome
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


class ImportRefused(ValueError):
    """A source from which no SpeculativeModel can be made; the message says why and what to do."""

    def __init__(self, why: str) -> None:
        super().__init__(_HIDDEN if holds_secret(why) else why)


class NoEngine(ImportRefused):
    """A workload that does not run vLLM, as a user interface beside the engine does not."""


@dataclass(slots=True)
class Findings:
    """The findings of one import, in the order in which the source names the parts."""

    _found: dict[tuple[Outcome, str], Finding] = field(default_factory=dict)

    def dropped(self, what: str, why: str) -> None:
        """Note a part that the SpeculativeModel does not have."""
        self._add(Outcome.DROPPED, what, why)

    def check(self, what: str, why: str) -> None:
        """Note a part that a user should look at."""
        self._add(Outcome.CHECK, what, why)

    def of(self, outcome: Outcome) -> tuple[Finding, ...]:
        """The findings of one kind."""
        return tuple(each for each in self._found.values() if each.outcome is outcome)

    def _add(self, outcome: Outcome, what: str, why: str) -> None:
        name = "a part that looks secret" if holds_secret(what) else shortened(in_one_line(what), _MAX_NAME)
        reason = _HIDDEN if holds_secret(why) else in_one_line(why)
        self._found.setdefault((outcome, name), Finding(outcome, name, reason))
