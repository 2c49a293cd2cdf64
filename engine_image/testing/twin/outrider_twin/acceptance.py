"""Probability that the draft tokens of a text are accepted, by position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

DEFAULT_ACCEPTANCE = 0.78
"""Acceptance at the first position where a table has none; the usual range is 0.6 to 0.9."""
ACCEPTANCE_DECAY = 0.95
"""Factor on the acceptance from each position to the next."""
DEFAULT_POSITIONS = 16


@dataclass(frozen=True, slots=True)
class Curve:
    """Acceptance rate at each position, given that all before it were accepted. It is constant beyond the
    last.

    `from_survival` builds one from the ratios of drafts with an accepted position j.
    """

    chances: tuple[float, ...]

    @classmethod
    def from_survival(cls, survival: Sequence[float]) -> Curve:
        """The curve of a survival: ratios from the first drafted position on, not increasing, from 1 to 0."""
        return cls(
            tuple(after / before if before > 0 else 0.0 for before, after in pairwise((1.0, *survival)))
        )

    @classmethod
    def usual(cls) -> Curve:
        """The curve where nothing is known."""
        return cls(tuple(DEFAULT_ACCEPTANCE * ACCEPTANCE_DECAY**j for j in range(DEFAULT_POSITIONS)))

    def at(self, position: int) -> float:
        """Acceptance rate at a position, from 0 on."""
        return self.chances[min(position, len(self.chances) - 1)]

    def gain(self, k: int) -> float:
        """Mean tokens per request and step with drafts of ``k`` tokens."""
        survival: Iterable[float] = accumulate((self.at(j) for j in range(k)), lambda a, b: a * b)
        return 1.0 + sum(survival, 0.0)
