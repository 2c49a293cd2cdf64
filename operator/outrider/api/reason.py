"""What a reason of a condition or an Event consists of."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Need(StrEnum):
    """Whether a reason needs a person."""

    NOTHING = "Nothing"
    """All is well."""
    WAIT = "Wait"
    """Outrider works on it, and a later reconcile or tick changes it."""
    RETRIED = "Retried"
    """Outrider retries at each tick; a person is needed if it lasts longer than two minutes."""
    NOTE = "Note"
    """Worth knowing and not urgent: it was asked for, or it is right at this load."""
    PERSON = "Person"
    """It stays until a person acts."""


class Reason(StrEnum):
    """A reason of a condition or of an Event."""

    _value_: str
    need: Need
    meaning: str
    """One or two sentences: what Outrider does, and why."""
    do: str
    """What to do, for `status`, runbooks and Events. Empty if there is nothing to do."""
    page: str
    """The page below `docs/` that has more; empty without one."""

    def __new__(cls, value: str, need: Need, meaning: str, do: str = "", page: str = "") -> Self:
        """A member. A reason without a meaning is an error when this module is imported."""
        member = str.__new__(cls, value)
        member._value_, member.need, member.meaning, member.do, member.page = value, need, meaning, do, page
        return member
