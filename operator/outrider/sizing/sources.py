"""Where a number comes from, in one of five words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Evidence(StrEnum):
    """How a number is known. None is said in a stronger way than its word."""

    FORMULA = "formula"
    """Reckoned from other numbers."""
    READ = "read"
    """From a data sheet, a checkpoint's config.json or a guide."""
    SIMULATED = "simulated"
    """From engines that are formulas or tables."""
    MEASURED = "measured"
    """From a run of a real engine."""
    ASSUMED = "assumed"
    """Not measured; another number may be true for you."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a number, or a few, come from."""

    what: str
    evidence: Evidence
    where: str

    def __str__(self) -> str:
        return f"{self.what}: {self.evidence}, {self.where}"
