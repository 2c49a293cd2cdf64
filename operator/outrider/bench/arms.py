"""The arms of a bench: speculation as it is, and one K for every batch size."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from outrider_protocol.schedule import Schedule

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Arm:
    """One setting of speculation. k: the K for every batch size; None: the schedule in force."""

    k: int | None

    @property
    def name(self) -> str:
        """The name for people."""
        return "as it is" if self.k is None else f"K={self.k}"

    @property
    def table(self) -> Schedule | None:
        """The schedule that overrides the tuner; None: there is no override."""
        return None if self.k is None else Schedule.constant(self.k)


AS_IT_IS = Arm(None)
NO_DRAFTS = Arm(0)


def arms_of(ks: Iterable[int]) -> tuple[Arm, ...]:
    """The arms as it is and K=0, and one arm for each other K."""
    return AS_IT_IS, NO_DRAFTS, *(Arm(k) for k in sorted(set(ks) - {0}))


def interleaved(items: Sequence[ItemT], *, rounds: int, seed: int) -> Iterator[tuple[int, ItemT]]:
    """Every item once per round, each round in another order, so that drift favours none."""
    chooser = random.Random(seed)
    for number in range(rounds):
        yield from ((number, item) for item in chooser.sample(items, len(items)))
