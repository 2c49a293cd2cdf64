"""How sure a phase's figures are: tokens per second of short blocks, with Student's interval. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from examples.demo.phases import Arm
from examples.demo.result import LapStretch, Result
from examples.kit.loads import RAMP_SECONDS
from examples.kit.records import Count
from outrider.bench.verdict import FEWEST_ROUNDS, Interval, geometric, mean

BLOCK_SECONDS = 2.0
"""Long enough that the end of one answer does not make a block."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One phase. arms: tokens per second of the blocks of each arm that was driven."""

    phase: str
    arms: dict[Arm, tuple[float, ...]]

    def rate(self, arm: Arm) -> Interval | None:
        """None with too few blocks."""
        blocks = self.arms.get(arm, ())
        return mean(blocks) if len(blocks) >= FEWEST_ROUNDS else None

    def gain(self, over: Arm) -> Interval | None:
        """Outrider's, as a ratio of geometric means; None where one of both is not known.

        Both arms' margins are added as those of independent figures, which Student's quantile of each widens.
        """
        sides = [self.arms.get(arm, ()) for arm in (Arm.OUTRIDER, over)]
        if any(len(blocks) < FEWEST_ROUNDS or min(blocks) <= 0 for blocks in sides):
            return None
        above, below = (geometric(blocks) for blocks in sides)
        centre = math.log(above.value / below.value)
        margin = math.hypot(*(math.log(side.high / side.value) for side in (above, below)))
        return Interval(math.exp(centre), math.exp(centre - margin), math.exp(centre + margin))


def compared(result: Result) -> list[Compared]:
    """Every phase, in its order: static slices after their ramp, Outrider in the second half of its phase."""
    return [_phase(phase.phase, result.stretches) for phase in result.phases]


def _phase(name: str, stretches: Sequence[LapStretch]) -> Compared:
    arms: dict[Arm, tuple[float, ...]] = {}
    for stretch in stretches:
        if stretch.load == name:
            half = (stretch.start + stretch.end) / 2
            since = half if stretch.arm is Arm.OUTRIDER else stretch.start + RAMP_SECONDS
            counted = [one for one in stretch.counts if one.time - one.seconds / 2 >= since]
            arms[stretch.arm] = arms.get(stretch.arm, ()) + blocks(counted)
    return Compared(name, arms)


def blocks(counts: Sequence[Count]) -> tuple[float, ...]:
    """Tokens per second of neighbouring counts that cover `BLOCK_SECONDS` together; a rest is left out."""
    found: list[float] = []
    seconds, tokens = 0.0, 0
    for count in counts:
        seconds, tokens = seconds + count.seconds, tokens + count.tokens
        if seconds >= BLOCK_SECONDS * 0.99:
            found.append(tokens / seconds)
            seconds, tokens = 0.0, 0
    return tuple(found)


def overall(phases: Sequence[Compared], over: Arm) -> float | None:
    """Geometric mean of the phases' gains; None where one is not known."""
    found = [phase.gain(over) for phase in phases]
    known = [gain.value for gain in found if gain is not None]
    return math.exp(fmean(map(math.log, known))) if len(known) == len(found) and known else None
