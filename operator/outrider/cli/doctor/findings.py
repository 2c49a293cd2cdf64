"""What a look at a cluster came to. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    FINE = "fine"
    WARNING = "warning"
    """It works, but not as well as it could, or not all of it."""
    BAD = "bad"
    """Models cannot be served or tuned like that."""
    UNSEEN = "unseen"
    """The caller may not look at it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. action: what to do; empty where nothing is to be done."""

    level: Level
    subject: str
    message: str
    action: str = ""


def fine(subject: str, message: str) -> Finding:
    """As it should be."""
    return Finding(Level.FINE, subject, message)


def warning(subject: str, message: str, action: str) -> Finding:
    """It could be better."""
    return Finding(Level.WARNING, subject, message, action)


def bad(subject: str, message: str, action: str) -> Finding:
    """It does not work like that."""
    return Finding(Level.BAD, subject, message, action)


def unseen(subject: str, why: str) -> Finding:
    """Nobody knows."""
    return Finding(Level.UNSEEN, subject, f"not looked at: {why}")
