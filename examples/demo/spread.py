"""Intervals of a phase's figures: rates by short blocks, gains by neighbouring intervals. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from examples.demo.measure import own_parts, rate
from examples.demo.phases import Arm
from examples.demo.result import AcceptanceSample, ArmStretch, Result
from examples.kit.loads import Prompts
from examples.kit.records import Count, Stretch
from outrider.bench.verdict import MIN_ROUNDS, Interval, mean, ratio

BLOCK_SECONDS = 2.0
"""Length of a block, so that the end of one answer does not dominate it."""
BLOCK_SLACK = 0.1
"""Ratio by which a block may be shorter, as the last count of an interval is if earlier ones were late."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One phase, in tokens per second of each arm that was driven.

    halves: rates of each half of a mirrored round: an interval of fixed K, and the half of Outrider's
    interval on its side. Both have the same index.
    """

    phase: str
    blocks: dict[Arm, tuple[float, ...]]
    halves: dict[Arm, tuple[float, ...]]

    def rate(self, arm: Arm) -> Interval | None:
        """None with too few blocks."""
        return _mean(self.blocks.get(arm, ()))

    def gain(self, over: Arm) -> Interval | None:
        """Return the geometric mean of Outrider's ratios to neighbouring intervals; None if one is missing.

        A drift raises the ratios of one half of a round and lowers those of the other, so the mean stays.
        """
        above, below = (self.halves.get(arm, ()) for arm in (Arm.OUTRIDER, over))
        if len(above) != len(below) or len(above) < MIN_ROUNDS or min(*above, *below) <= 0:
            return None
        return ratio(above, below)


def compared(result: Result) -> list[Compared]:
    """Every phase, in its order, of what counts."""
    return [_phase(phase.phase, result.stretches) for phase in result.phases]


def _phase(name: str, stretches: Iterable[ArmStretch]) -> Compared:
    cut, halves = dict[Arm, tuple[float, ...]](), dict[Arm, tuple[float, ...]]()
    for stretch in stretches:
        if stretch.load == name and (counted := stretch.counted):
            arm = stretch.arm
            parts = _in_two(counted) if arm is Arm.OUTRIDER else (counted,)
            cut[arm] = cut.get(arm, ()) + blocks(counted, block_seconds(stretch))
            halves[arm] = halves.get(arm, ()) + tuple(rate(part) or 0.0 for part in parts)
    return Compared(name, cut, halves)


def _in_two(counts: Sequence[Count]) -> tuple[Sequence[Count], Sequence[Count]]:
    """In the middle of their time."""
    middle = (counts[0].time - counts[0].seconds + counts[-1].time) / 2
    first = [one for one in counts if one.time - one.seconds / 2 < middle]
    return first, counts[len(first) :]


def block_seconds(stretch: Stretch) -> float:
    """Length of a block: where texts take turns, a whole period, so that every block has the same texts."""
    periods = {str(prompts): prompts.period_seconds for prompts in Prompts}
    return max(BLOCK_SECONDS, periods.get(stretch.prompts, 0.0))


def blocks(counts: Sequence[Count], length: float = BLOCK_SECONDS) -> tuple[float, ...]:
    """Tokens per second of neighbouring counts that cover a block together; a rest is left out."""
    found: list[float] = []
    seconds, tokens = 0.0, 0
    for count in counts:
        seconds, tokens = seconds + count.seconds, tokens + count.tokens
        if seconds >= length * (1 - BLOCK_SLACK):
            found.append(tokens / seconds)
            seconds, tokens = 0.0, 0
    return tuple(found)


def overall(phases: Sequence[Compared], over: Arm) -> Interval | None:
    """Return the geometric mean of the phases' gains; None if one is unknown.

    It describes these phases, and not other loads. Their margins are added as independent, because no
    interval is in two phases.
    """
    gains = [phase.gain(over) for phase in phases]
    known = [gain for gain in gains if gain is not None]
    if not known or len(known) < len(gains):
        return None
    centre = fmean(math.log(gain.value) for gain in known)
    margin = math.hypot(*(math.log(gain.high / gain.value) for gain in known)) / len(known)
    return Interval(math.exp(centre), math.exp(centre - margin), math.exp(centre + margin))


def unknown(phases: Iterable[Compared], over: Arm) -> list[str]:
    """Return phases in which one of both arms has too few intervals with tokens."""
    return [phase.phase for phase in phases if phase.gain(over) is None]


@dataclass(frozen=True, slots=True)
class OwnSpread:
    """Outrider's part of a phase: tokens per second, and accepted over drafted. None with too few blocks.

    settled: what counts, after learning.
    """

    settled: Interval | None
    whole_phase: Interval | None
    acceptance: Interval | None


def own_spreads(
    stretches: Iterable[ArmStretch], acceptance: Sequence[AcceptanceSample]
) -> dict[str, OwnSpread]:
    """Return the spreads of every phase that Outrider drove, by name."""
    return {
        load: OwnSpread(
            _mean([block for each in part for block in blocks(each.counted, block_seconds(each))]),
            _mean([block for each in part for block in blocks(each.counts, block_seconds(each))]),
            _accepted(part, acceptance),
        )
        for load, part in own_parts(stretches).items()
    }


def _accepted(part: Sequence[ArmStretch], samples: Iterable[AcceptanceSample]) -> Interval | None:
    """A ratio of sums over blocks, by the spread of what each block lies off it."""
    drafted, accepted = dict[float, float](), dict[float, float]()
    for one in samples:
        stretch = next((stretch for stretch in part if stretch.covers(one.time)), None)
        if stretch is not None:
            length = block_seconds(stretch)
            block = stretch.start + length * int((one.time - stretch.start) / length)
            drafted[block] = drafted.get(block, 0.0) + one.drafted
            accepted[block] = accepted.get(block, 0.0) + one.rate * one.drafted
    if len(drafted) < MIN_ROUNDS:
        return None
    rate = sum(accepted.values()) / sum(drafted.values())
    each = fmean(drafted.values())
    off = mean([(accepted[block] - rate * drafted[block]) / each for block in drafted])
    return Interval(rate, max(0.0, rate + off.low), min(1.0, rate + off.high))


def _mean(values: Sequence[float]) -> Interval | None:
    return mean(values) if len(values) >= MIN_ROUNDS else None
