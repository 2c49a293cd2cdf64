"""From per-second counts to tokens per second. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from examples.kit.loads import RAMP_SECONDS
from examples.kit.records import Count, Stretch
from tests.bench.engine.plan import NONE, RULES, STATIC
from tests.bench.engine.records import UnitRecord

SETTLED_SECONDS = 30.0
"""A phase has settled after this time."""
PIECE_SECONDS = 4.0
"""Seconds of one piece, where a long stretch is cut to see its spread."""
_SLACK_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Rate:
    """Tokens per second of one slice, or of one piece of a stretch."""

    number: int  # of the round; pieces count on
    tokens: float
    seconds: float

    @property
    def value(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds


Slices = Mapping[tuple[str, str], tuple[Rate, ...]]
"""(load, static arm) -> its slices."""


def inside(counts: Iterable[Count], since: float, until: float) -> list[Count]:
    """Periods that lie wholly between two times."""
    return [
        one
        for one in counts
        if one.time - one.seconds >= since - _SLACK_SECONDS and one.time <= until + _SLACK_SECONDS
    ]


def rate(counts: Iterable[Count], since: float, until: float, *, number: int = 0) -> Rate | None:
    """None without a whole period there."""
    seen = inside(counts, since, until)
    seconds = sum(one.seconds for one in seen)
    return Rate(number, sum(one.tokens for one in seen), seconds) if seconds > 0 else None


def pieces(counts: Iterable[Count], since: float, until: float, *, first: int = 0) -> list[Rate]:
    """The same span cut into pieces of PIECE_SECONDS; a short rest joins the last one."""
    found: list[Rate] = []
    group: list[Count] = []
    for one in inside(counts, since, until):
        group.append(one)
        if sum(each.seconds for each in group) >= PIECE_SECONDS - 0.5:
            found.append(_joined(group, first + len(found)))
            group = []
    if group:
        rest = _joined(group, first + len(found))
        if found:
            last = found.pop()
            rest = Rate(last.number, last.tokens + rest.tokens, last.seconds + rest.seconds)
        found.append(rest)
    return found


def _joined(group: Sequence[Count], number: int) -> Rate:
    return Rate(number, sum(one.tokens for one in group), sum(one.seconds for one in group))


def settled_pieces(stretch: Stretch) -> list[Rate]:
    """What counts after SETTLED_SECONDS."""
    return pieces(stretch.counts, stretch.start + SETTLED_SECONDS, stretch.end)


def whole_pieces(stretch: Stretch) -> list[Rate]:
    """What counts after the ramp."""
    return pieces(stretch.counts, stretch.start + RAMP_SECONDS, stretch.end)


def slices_of(units: Iterable[UnitRecord]) -> Slices:
    """All slices of static arms, and the pieces of the engine without speculation."""
    found: defaultdict[tuple[str, str], list[Rate]] = defaultdict(list)
    for unit in units:
        if unit.arm not in (STATIC, NONE):
            continue
        for piece in unit.slices:
            for stretch in unit.stretches:
                known = found[stretch.load, piece.arm]
                if piece.arm == NONE:
                    known += pieces(stretch.counts, piece.since, piece.until, first=len(known))
                elif (one := rate(stretch.counts, piece.since, piece.until, number=unit.number)) is not None:
                    known.append(one)
    return {key: tuple(rates) for key, rates in found.items() if rates}


def mean(rates: Iterable[Rate]) -> float | None:
    """Tokens per second of all together; None without any."""
    seen = list(rates)
    seconds = sum(one.seconds for one in seen)
    return sum(one.tokens for one in seen) / seconds if seconds > 0 else None


def runs_of(units: Iterable[UnitRecord]) -> dict[str, tuple[UnitRecord, ...]]:
    """Whole traces by policy, in the order of their repeats."""
    found: defaultdict[str, list[UnitRecord]] = defaultdict(list)
    for unit in units:
        if unit.arm not in (STATIC, NONE):
            found[unit.arm].append(unit)
    return {
        policy: tuple(sorted(runs, key=lambda unit: unit.number))
        for policy, runs in sorted(found.items(), key=lambda one: (one[0] not in RULES, one[0]))
    }
