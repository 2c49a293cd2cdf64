"""A steady load, and what its streams ask for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from examples.kit.prompts import Kind

RAMP_SECONDS = 2.0
"""A load counts from here on: prompts are read and the streams are under way."""
TURN_SECONDS = 4.0
"""Time of one kind of text where the kinds take turns."""


class Prompts(StrEnum):
    """What the streams ask for. The drafter of the tiny models knows code only."""

    CODE = "code"
    PROSE = "prose"
    MIXED = "mixed"
    """The kind changes with each request."""
    TURNS = "turns"
    """The kind changes every `TURN_SECONDS`, for all streams at once."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Whose prompts are sent."""
        both = self in (Prompts.MIXED, Prompts.TURNS)
        return (Kind.CODE, Kind.PROSE) if both else (Kind(self.value),)

    @property
    def period_seconds(self) -> float:
        """Time until the same texts come again; 0 where they do not change with time."""
        return len(self.kinds) * TURN_SECONDS if self is Prompts.TURNS else 0.0

    @property
    def words(self) -> str:
        """Such as ``code and prose by turns of 4 s``."""
        kinds = " and ".join(self.kinds)
        return f"{kinds} by turns of {TURN_SECONDS:g} s" if self is Prompts.TURNS else kinds


@dataclass(frozen=True, slots=True)
class Load:
    """A steady load, the same whenever it comes.

    text: class of text that a simulated engine answers with; empty for the engine's default.
    context: characters to which prompts are lengthened; 0 leaves them as they are.
    """

    streams: int
    prompts: Prompts
    text: str = ""
    context: int = 0

    @property
    def asked(self) -> str:
        """What each stream asks for, such as ``code`` or ``gsm8k@2000``."""
        return f"{self.text or self.prompts}{f'@{self.context}' if self.context else ''}"

    @property
    def name(self) -> str:
        """Such as ``code x8``."""
        return f"{self.asked} x{self.streams}"
