"""A steady load, and what its streams ask for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from examples.kit.prompts import Kind

RAMP_SECONDS = 2.0
"""A load counts from here on: prompts are read and the streams are under way."""


class Prompts(StrEnum):
    """What the streams ask for. The drafter of the tiny models knows code only."""

    CODE = "code"
    PROSE = "prose"
    MIXED = "mixed"

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Whose prompts are sent; of two kinds in turn."""
        return (Kind.CODE, Kind.PROSE) if self is Prompts.MIXED else (Kind(self.value),)


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
