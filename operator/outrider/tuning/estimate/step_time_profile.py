"""A step-time profile, which an engine measured before its first request.

It used synthetic requests, so live steps differ from it by errors that all cells share: a scale, and slopes
in batch and depth. `blend.py` learns these from live steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, log2


@dataclass(frozen=True, slots=True)
class MapCell:
    """Steps of one K at one batch size and context, without prompts."""

    batch_size: float  # requests
    k: int
    context: float | None  # tokens in the cache per request; None if unknown
    step_seconds: float
    error: float  # relative standard error, of this cell alone

    def __post_init__(self) -> None:
        """Refuse values that no engine can have measured.

        Raises:
            ValueError: a batch or context below 1, a K below 0, or a time or error not above 0.
        """
        context = 1.0 if self.context is None else self.context
        possible = self.batch_size >= 1 and self.k >= 0 and context >= 1
        if not (possible and 0 < self.step_seconds < float("inf") and 0 < self.error < float("inf")):
            raise ValueError(f"not a step time: {self}")

    @property
    def log_step(self) -> float:
        """Log of the step's seconds."""
        return log(self.step_seconds)

    @property
    def log_batch(self) -> float:
        """log2 of the batch size."""
        return log2(self.batch_size)

    @property
    def log_context(self) -> float | None:
        """log2 of the context."""
        return None if self.context is None else log2(self.context)

    @property
    def log_prompts(self) -> float:
        """Zero: no step of a profile has prompts."""
        return 0.0


@dataclass(frozen=True, slots=True)
class StepTimeProfile:
    """All measured cells, in any order."""

    cells: tuple[MapCell, ...]

    @property
    def ks(self) -> frozenset[int]:
        """All values of K in the profile."""
        return frozenset(cell.k for cell in self.cells)

    def covers(self, batch_size: float) -> bool:
        """Return True if at least two values of K were measured within an octave of this batch size."""
        near = {cell.k for cell in self.cells if abs(cell.log_batch - log2(batch_size)) <= 1.0}
        return len(near) > 1

    @property
    def compares(self) -> bool:
        """True if it has several K. One K alone could not be checked against live steps of others."""
        return len(self.ks) > 1
