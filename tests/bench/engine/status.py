"""What the model's status said, held against what was measured. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from examples.kit.records import Record, Stretch, during
from examples.kit.status import k_at
from tests.bench.engine.figures import Analysis, Interval
from tests.bench.engine.plan import NONE, OUTRIDER
from tests.bench.engine.rates import mean, runs_of, settled_pieces, whole_pieces
from tests.bench.engine.records import UnitRecord

MISSED_LOSS = 0.03
"""A K at the start of a phase that is this much slower than the best one wants a new table."""


class Reaction(Record):
    """How long after a load step a table with another K for it was in force."""

    policy: str
    repeat: int
    phase: int
    load: str
    k_before: int
    k_after: int
    seconds: float | None
    """None: K stayed."""
    wanted: bool
    """K at the step was slower than the clairvoyant by more than 3 %."""


class Reported(Record):
    """A speedup that status reported at the end of a phase, and what the load client measured."""

    repeat: int
    phase: int
    load: str
    ratio: float
    low: float
    high: float
    reference: str
    measured: Interval
    """Tokens per second after settling, over those of the engine without speculation."""
    measured_over_zero: float | None
    """The same over K=0 in the same engine."""
    covered: bool
    """low <= measured <= high."""
    consistent: bool
    """They differ by no more than both their errors allow at 95 %."""


class Coverage(Record):
    """Over all reported speedups. left_out: phases in which none was measured."""

    reported: list[Reported]
    left_out: int
    covered: float | None
    consistent: float | None
    noise: float | None
    """Mean half-width of the measured ratio's own interval, relative."""


def reactions(analysis: Analysis) -> list[Reaction]:
    """Reaction of every policy at every step except the first, which changes no load."""
    return [
        found
        for policy, runs in runs_of(analysis.units).items()
        for run in runs
        for phase in range(1, len(run.stretches))
        if (found := _reaction(analysis, policy, run, phase)) is not None
    ]


def _reaction(analysis: Analysis, policy: str, run: UnitRecord, phase: int) -> Reaction | None:
    stretch = run.stretches[phase]
    tables = [(one.time, one.table) for one in during(run.statuses, stretch) if one.table]
    if not tables:
        return None
    ks = [(at, k_at(table, stretch.streams)) for at, table in tables]
    before = ks[0][1]
    changed = next((at for at, k in ks if k != before), None)
    return Reaction(
        policy=policy,
        repeat=run.number,
        phase=phase,
        load=stretch.load,
        k_before=before,
        k_after=ks[-1][1],
        seconds=None if changed is None else changed - stretch.start,
        wanted=_is_slow(analysis, stretch.load, before),
    )


def _is_slow(analysis: Analysis, load: str, k: int) -> bool:
    best, own = analysis.best.get(load), mean(analysis.slices.get((load, str(k)), ()))
    if best is None or own is None or str(k) in best.choices:
        return False
    return own < (1 - MISSED_LOSS) * best.value


def coverage(analysis: Analysis) -> Coverage | None:
    """None without Outrider or without the engine that does not speculate."""
    runs = runs_of(analysis.units).get(OUTRIDER)
    if not runs or NONE not in analysis.arms:
        return None
    phases = [(run, phase) for run in runs for phase in range(len(run.stretches))]
    found = [one for run, phase in phases if (one := _reported(analysis, run, phase)) is not None]
    count = len(found)
    return Coverage(
        reported=found,
        left_out=len(phases) - count,
        covered=sum(one.covered for one in found) / count if count else None,
        consistent=sum(one.consistent for one in found) / count if count else None,
        noise=sum((one.measured.high - one.measured.low) / 2 / one.measured.value for one in found) / count
        if count
        else None,
    )


def _reported(analysis: Analysis, run: UnitRecord, phase: int) -> Reported | None:
    stretch = run.stretches[phase]
    seen = [one.speedup for one in during(run.statuses, stretch) if one.speedup is not None]
    # What an earlier phase measured says nothing about this load.
    fresh = [one for one in seen if one.measured_at >= stretch.start]
    if not fresh or fresh[-1].low is None or fresh[-1].high is None:
        return None
    speedup, low, high = fresh[-1], fresh[-1].low, fresh[-1].high
    measured = _measured(analysis, stretch)
    if measured is None:
        return None
    zero = mean(analysis.slices.get((stretch.load, "0"), ()))
    rate = mean(settled_pieces(stretch) or whole_pieces(stretch))
    return Reported(
        repeat=run.number,
        phase=phase,
        load=stretch.load,
        ratio=speedup.ratio,
        low=low,
        high=high,
        reference=speedup.reference,
        measured=measured,
        measured_over_zero=rate / zero if rate and zero else None,
        covered=low <= measured.value <= high,
        consistent=_consistent(speedup.ratio, low, high, measured),
    )


def _measured(analysis: Analysis, stretch: Stretch) -> Interval | None:
    """Errors of both means, from the spread of their pieces."""
    own = settled_pieces(stretch) or whole_pieces(stretch)
    none = analysis.slices.get((stretch.load, NONE), ())
    rate, reference = mean(own), mean(none)
    if not rate or not reference:
        return None
    single = analysis.single_noise
    error = math.hypot(
        _relative_error([one.value for one in own], single),
        _relative_error([one.value for one in none], single),
    )
    ratio = rate / reference
    return Interval(value=ratio, low=ratio * math.exp(-1.96 * error), high=ratio * math.exp(1.96 * error))


def _relative_error(values: Sequence[float], single_noise: float) -> float:
    """Standard error of the mean over the mean."""
    if len(values) < 2:
        return single_noise
    middle = sum(values) / len(values)
    variance = sum((value - middle) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance / len(values)) / middle


def _consistent(ratio: float, low: float, high: float, measured: Interval) -> bool:
    told = max(high - ratio, ratio - low)
    seen = (measured.high - measured.low) / 2
    return abs(ratio - measured.value) <= math.hypot(told, seen)
