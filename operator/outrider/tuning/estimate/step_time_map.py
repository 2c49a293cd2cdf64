"""A map of step times: what an engine measured of itself before its first request.

It is made with synthetic requests, so live steps differ from it in ways that all cells share: by a
scale, and by slopes in batch and depth. `blend.py` learns these from live steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, log2


@dataclass(frozen=True, slots=True)
class MapCell:
    """Steps of one K at one batch size and context, without prompts."""

    batch_size: float  # requests
    k: int
    context: float | None  # tokens in the cache per request; None where it is not known
    step_seconds: float
    error: float  # relative standard error, of this cell alone

    def __post_init__(self) -> None:
        """Refuse what no engine can have measured.

        Raises:
            ValueError: a batch or context below 1, a K below 0, or a time or error not above 0.
        """
        context = 1.0 if self.context is None else self.context
        possible = self.batch_size >= 1 and self.k >= 0 and context >= 1
        if not (possible and 0 < self.step_seconds < float("inf") and 0 < self.error < float("inf")):
            raise ValueError(f"no step time: {self}")

    @property
    def log_step(self) -> float:
        """Of seconds."""
        return log(self.step_seconds)

    @property
    def log_batch(self) -> float:
        """log2."""
        return log2(self.batch_size)

    @property
    def log_context(self) -> float | None:
        """log2."""
        return None if self.context is None else log2(self.context)

    @property
    def log_prompts(self) -> float:
        """No step of a map reads prompts."""
        return 0.0


@dataclass(frozen=True, slots=True)
class StepTimeMap:
    """Every cell that was measured, in any order."""

    cells: tuple[MapCell, ...]

    @property
    def ks(self) -> frozenset[int]:
        """That were measured, at whatever batch size."""
        return frozenset(cell.k for cell in self.cells)

    def covers(self, batch_size: float) -> bool:
        """Whether it tells K apart at a batch size: two of them were measured within an octave."""
        near = {cell.k for cell in self.cells if abs(cell.log_batch - log2(batch_size)) <= 1.0}
        return len(near) > 1

    @property
    def compares(self) -> bool:
        """Whether it tells K apart. A map of one K could not be checked against live steps of the others."""
        return len(self.ks) > 1
