"""How likely the draft tokens of a text are accepted, position by position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

DEFAULT_ACCEPTANCE = 0.78
"""Of the first drafted position, where a table does not say; the usual range is 0.6 to 0.9."""
ACCEPTANCE_DECAY = 0.95
"""Each later position is accepted this much less often than the one before it."""
DEFAULT_POSITIONS = 16


@dataclass(frozen=True, slots=True)
class Curve:
    """Chance of each position, given that all before it were accepted. Beyond the last it stays.

    `from_survival` makes one from the shares of drafts of which position j was accepted.
    """

    chances: tuple[float, ...]

    @classmethod
    def from_survival(cls, survival: Sequence[float]) -> Curve:
        """survival: from the first drafted position on, never rising, from 1 to 0."""
        return cls(
            tuple(after / before if before > 0 else 0.0 for before, after in pairwise((1.0, *survival)))
        )

    @classmethod
    def usual(cls) -> Curve:
        """Where nothing is known."""
        return cls(tuple(DEFAULT_ACCEPTANCE * ACCEPTANCE_DECAY**j for j in range(DEFAULT_POSITIONS)))

    def at(self, position: int) -> float:
        """Of the draft token at a position, from 0 on."""
        return self.chances[min(position, len(self.chances) - 1)]

    def gain(self, k: int) -> float:
        """Mean tokens that a step emits per request with drafts of ``k`` tokens."""
        survival: Iterable[float] = accumulate((self.at(j) for j in range(k)), lambda a, b: a * b)
        return 1.0 + sum(survival, 0.0)
