"""How sure a phase's figures are: tokens per second of short blocks, with Student's interval. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from examples.demo.phases import Arm
from examples.demo.result import AcceptanceSample, ArmStretch, Result
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
        return _mean(self.arms.get(arm, ()))

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


def _phase(name: str, stretches: Sequence[ArmStretch]) -> Compared:
    arms: dict[Arm, tuple[float, ...]] = {}
    for stretch in stretches:
        if stretch.load == name:
            own = stretch.arm is Arm.OUTRIDER
            counted = _since_half(stretch) if own else _since(stretch, stretch.start + RAMP_SECONDS)
            arms[stretch.arm] = arms.get(stretch.arm, ()) + blocks(counted)
    return Compared(name, arms)


def _since_half(stretch: ArmStretch) -> list[Count]:
    return _since(stretch, (stretch.start + stretch.end) / 2)


def _since(stretch: ArmStretch, time: float) -> list[Count]:
    return [one for one in stretch.counts if one.time - one.seconds / 2 >= time]


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


def overall(phases: Sequence[Compared], over: Arm) -> Interval | None:
    """Geometric mean of the phases' gains; None where one is not known.

    Of these phases, which are what was asked, and not of loads that they might stand for. Their margins are
    added as those of independent figures: no block is in two phases.
    """
    gains = [phase.gain(over) for phase in phases]
    known = [gain for gain in gains if gain is not None]
    if not known or len(known) < len(gains):
        return None
    centre = fmean(math.log(gain.value) for gain in known)
    margin = math.hypot(*(math.log(gain.high / gain.value) for gain in known)) / len(known)
    return Interval(math.exp(centre), math.exp(centre - margin), math.exp(centre + margin))


def unknown(phases: Iterable[Compared], over: Arm) -> list[str]:
    """Phases in which one of both arms has too few blocks with tokens for an interval."""
    return [phase.phase for phase in phases if phase.gain(over) is None]


@dataclass(frozen=True, slots=True)
class OwnSpread:
    """Outrider's part of a phase: tokens per second, and accepted over drafted. None with too few blocks."""

    second_half: Interval | None
    whole_phase: Interval | None
    acceptance: Interval | None


def own_spreads(
    stretches: Iterable[ArmStretch], acceptance: Sequence[AcceptanceSample]
) -> dict[str, OwnSpread]:
    """Of every phase that Outrider drove, by its name."""
    return {
        stretch.load: OwnSpread(
            _mean(blocks(_since_half(stretch))),
            _mean(blocks(stretch.counts)),
            _accepted(stretch, acceptance),
        )
        for stretch in stretches
        if stretch.arm is Arm.OUTRIDER
    }


def _accepted(stretch: ArmStretch, samples: Iterable[AcceptanceSample]) -> Interval | None:
    """A ratio of sums over blocks, by the spread of what each block lies off it."""
    drafted, accepted = dict[int, float](), dict[int, float]()
    for one in samples:
        if stretch.covers(one.time):
            block = int((one.time - stretch.start) / BLOCK_SECONDS)
            drafted[block] = drafted.get(block, 0.0) + one.drafted
            accepted[block] = accepted.get(block, 0.0) + one.rate * one.drafted
    if len(drafted) < FEWEST_ROUNDS:
        return None
    rate = sum(accepted.values()) / sum(drafted.values())
    each = fmean(drafted.values())
    off = mean([(accepted[block] - rate * drafted[block]) / each for block in drafted])
    return Interval(rate, max(0.0, rate + off.low), min(1.0, rate + off.high))


def _mean(values: Sequence[float]) -> Interval | None:
    return mean(values) if len(values) >= FEWEST_ROUNDS else None
