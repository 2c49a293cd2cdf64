"""What an import could not carry, and what needs a look, each by name with the reason and the remedy.

An import prints no text that may be secret, neither in the manifest nor in a message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from outrider.api.text import in_one_line, shortened

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


_SECRET_NAME = re.compile(
    r"(^|[_-])(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PWD|API_?KEY|ACCESS_?KEY(_?ID)?|PRIVATE_?KEY|"
    r"CREDENTIALS?|AUTHORIZATION|BEARER|DSN)($|[_-])",
    re.IGNORECASE,
)
_SECRET_PLACE = re.compile(r"(^|[_-])(FILE|PATH|DIR|FOLDER|NAME|PARALLELISM|LENGTH|LIMIT)$", re.IGNORECASE)
"""Variables that say where a secret lies, and not what it is."""
_PLAIN = re.compile(r"(|[0-9.]+|true|false|yes|no|on|off|none|\$\([A-Za-z0-9_.-]+\))", re.IGNORECASE)

_SECRET_VALUE = re.compile(
    r"hf_[A-Za-z0-9]{16,}|\bsk-[A-Za-z0-9_-]{16,}|\bgh[a-z]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|"
    r"\bnvapi-[A-Za-z0-9_-]{16,}|\bglpat-[A-Za-z0-9_-]{16,}|\b(AKIA|ASIA)[A-Z0-9]{16}\b|\bxox[a-z]-[A-Za-z0-9-]{10,}|"
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}|-----BEGIN |://[^/\s:@]+:[^/\s:@]+@|"
    r"(?i:\bbearer\s+[A-Za-z0-9._-]{8,}|(api[_-]?key|token|password|secret)[\"']?\s*[:=]\s*[\"']?[^\s\"'$]{8,})"
)
"""Tokens and keys of the services that engines use, and URLs with a password."""


def is_secret(name: str, value: object) -> bool:
    """Whether the value of a variable, or of a flag, may be secret."""
    if not isinstance(value, str) or _PLAIN.fullmatch(value.strip()):
        return False
    named = _SECRET_NAME.search(name) is not None and _SECRET_PLACE.search(name) is None
    return named or holds_secret(value)


def holds_secret(value: str) -> bool:
    """Whether a text has something in it that looks like a token, a key or a password."""
    return _SECRET_VALUE.search(value) is not None
