"""The findings of a look at a cluster. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

PartT = TypeVar("PartT")


class Level(StrEnum):
    """How bad a finding is."""

    FINE = "fine"
    WARNING = "warning"
    """It works, but not as well as it could, or only in part."""
    BAD = "bad"
    """Models cannot be served or tuned in this state."""
    UNSEEN = "unseen"
    """The caller may not read it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One result. action: what to do; empty where all is well."""

    level: Level
    subject: str
    message: str
    action: str = ""


@dataclass(frozen=True, slots=True)
class Unseen:
    """A part that the caller may not read, and why."""

    why: str


def fine(subject: str, message: str) -> Finding:
    """A part that is as it should be."""
    return Finding(Level.FINE, subject, message)


def warning(subject: str, message: str, action: str) -> Finding:
    """A part that could be better."""
    return Finding(Level.WARNING, subject, message, action)


def bad(subject: str, message: str, action: str) -> Finding:
    """A part that does not work."""
    return Finding(Level.BAD, subject, message, action)


def unseen(subject: str, why: str) -> Finding:
    """A part that the caller may not read."""
    return Finding(Level.UNSEEN, subject, f"not read: {why}")


def checked(
    subject: str, part: PartT | Unseen, check: Callable[[PartT], Iterable[Finding]]
) -> Iterable[Finding]:
    """The findings of a check, or the one that the part could not be read."""
    return (unseen(subject, part.why),) if isinstance(part, Unseen) else check(part)
