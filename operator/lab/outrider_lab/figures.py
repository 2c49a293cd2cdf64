"""The figures of a run. All of them come from the truth, none from noisy windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from outrider.tuning.decision import Speedup
from outrider_lab.engines.fleet import Span
from outrider_lab.replay import Replay, Step

SETTLING_SECONDS = 120.0
"""From the start of a phase; regret after it is the steady one."""
LOSS_SECONDS = 120.0
"""Traffic over which a loss against no speculation counts."""
REPORTED_SECONDS = 60.0
"""Time that a reported speedup is of, where engines choose K: the half-life of what the tuner counts then."""
RECOVERY_SECONDS = 30.0
"""Time over which goodput must reach `RECOVERED` of the optimum."""
RECOVERED = 0.95

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """Tokens and engine seconds since the start, linear between the times."""

    times: Floats
    tokens: Floats
    seconds: Floats

    @classmethod
    def of(cls, spans: Sequence[Span], needed: int | None = None) -> Curve:
        """Pods added up. needed: the entry of `Span.needed` that stands for the engine seconds."""
        cuts = np.unique([x for s in spans for x in (s.started_at, s.started_at + s.seconds)])
        tokens, seconds = np.zeros_like(cuts), np.zeros_like(cuts)
        # In a fixed order, since the rounding of sums depends on it.
        for pod in sorted({s.pod for s in spans}):
            mine = [s for s in spans if s.pod == pod]
            ends = np.array([0.0, *(s.started_at + s.seconds for s in mine)])
            tokens += np.interp(cuts, ends, np.cumsum([0.0, *(s.tokens for s in mine)]))
            spent = [s.engine_seconds if needed is None else s.needed[needed] for s in mine]
            seconds += np.interp(cuts, ends, np.cumsum([0.0, *spent]))
        return cls(cuts, tokens, seconds)

    def goodput(self, begin: Floats | float, end: Floats | float) -> Floats:
        """Tokens per second of engine time; not a number where the engine did nothing."""
        tokens = np.interp(end, self.times, self.tokens) - np.interp(begin, self.times, self.tokens)
        seconds = np.interp(end, self.times, self.seconds) - np.interp(begin, self.times, self.seconds)
        busy = np.asarray(seconds) > 1e-9
        return np.where(busy, tokens / np.where(busy, seconds, 1.0), np.nan)


@dataclass(frozen=True)
class PhaseTruth:
    """What is known about one phase of a trace."""

    label: str
    started_at: float  # seconds
    ended_at: float
    load: float  # batch size that the load asks for, for naming the K in force
    goodputs: Mapping[int, float]  # tokens per second of each static K, all pods
    best: Curve  # of the best static K in this phase

    @property
    def best_k(self) -> int:
        """The best single K of this phase; the smallest of equals."""
        return max(self.goodputs, key=lambda k: (self.goodputs[k], -k))


@dataclass(frozen=True)
class Truth:
    """The best possible run of a trace by phase (the oracle policy), and the engine without speculation."""

    phases: tuple[PhaseTruth, ...]
    unspeculated: Curve
    speedups: Mapping[tuple[int, int], float]  # over no speculation, by (phase, K); empty where batches vary


@dataclass(frozen=True, slots=True)
class PhaseFigures:
    """One phase of one run."""

    label: str
    seconds: float
    best_k: int
    final_k: int
    best_goodput: float  # tokens per second
    goodput: float
    regret: float | None  # after the first 120 s; None where the phase is not longer
    overall_regret: float
    seconds_to_optimum: float | None  # until 95 % of the optimum is held for 30 s; None: never
    switches: int


@dataclass(frozen=True, slots=True)
class Figures:
    """One run."""

    goodput: float  # tokens per second of engine time, all phases
    regret: float | None  # mean over phases, after the first 120 s of each
    overall_regret: float  # mean over phases, from their start
    static_run_regret: float | None  # after the first 120 s, against the best whole run with one K per phase
    worst_loss: float  # against no speculation, over any 120 s after the first decision; negative: a gain
    switches: int
    switches_per_hour: float  # after the first 120 s of each phase
    probe_share: float  # of time off the schedule's K
    steady_probe_share: float  # of the time after the first 120 s of each phase
    calibration_seconds: float  # most of it in the first 120 s of any phase, per pod
    seconds_to_optimum: float | None  # mean over phases; None: never in some phase
    coverage: float | None  # ratio of decisions whose speedup interval holds the truth; None: none given
    speedup_width: float | None  # of these intervals, over the ratio in their middle; mean
    phases: tuple[PhaseFigures, ...] = field(default=())


def figures(run: Replay, truth: Truth) -> Figures:
    """Judge a run against what the trace allows."""
    curve = Curve.of(run.spans)
    changes = list(_switches(run.steps, truth))
    off = _off_table(run)
    phases = tuple(_phase(curve, phase, run, changes) for phase in truth.phases)
    regrets = [p.regret for p in phases if p.regret is not None]
    waits = [p.seconds_to_optimum for p in phases]
    steady = [(p.started_at + SETTLING_SECONDS, p.ended_at) for p in truth.phases]
    steady = [(begin, end) for begin, end in steady if end > begin]
    early = [(p.started_at, min(p.ended_at, p.started_at + SETTLING_SECONDS)) for p in truth.phases]
    steady_seconds = sum(end - begin for begin, end in steady)
    steady_changes = sum(any(b < at < e for b, e in steady) for at in changes)
    end = truth.phases[-1].ended_at
    reported = _reported(run.steps, curve, truth)
    return Figures(
        goodput=float(curve.goodput(0.0, end)),
        regret=float(np.mean(regrets)) if regrets else None,
        overall_regret=float(np.mean([p.overall_regret for p in phases])),
        static_run_regret=None,
        worst_loss=worst_loss(curve, truth.unspeculated, run.first_tick, end),
        switches=len(changes),
        switches_per_hour=3600.0 * steady_changes / steady_seconds if steady_seconds else 0.0,
        probe_share=_share(off, 0.0, end) / end,
        steady_probe_share=sum(_share(off, *s) for s in steady) / steady_seconds if steady_seconds else 0.0,
        calibration_seconds=max(_share(off, *e) for e in early),
        seconds_to_optimum=None if None in waits else float(np.mean([w for w in waits if w is not None])),
        coverage=_mean([covered(speedup, ratio) for speedup, ratio in reported]),
        speedup_width=_mean([(s.high - s.low) / s.ratio for s, _ in reported]),
        phases=phases,
    )


def worst_loss(mine: Curve, other: Curve, begin: float, end: float) -> float:
    """Largest 1 - goodput / other goodput over any `LOSS_SECONDS` in between.

    Sums are linear between the curves' times, so the extremes are at windows that begin or end there.
    """
    if end - begin <= LOSS_SECONDS:
        starts = np.array([begin])
    else:
        edges = np.union1d(mine.times, other.times)
        starts = np.union1d(edges, edges - LOSS_SECONDS)
        starts = np.union1d(starts[(starts >= begin) & (starts <= end - LOSS_SECONDS)], [begin])
    ends = np.minimum(starts + LOSS_SECONDS, end)
    losses = 1.0 - mine.goodput(starts, ends) / other.goodput(starts, ends)
    return float(np.nanmax(losses)) if not np.isnan(losses).all() else 0.0


def _phase(curve: Curve, phase: PhaseTruth, run: Replay, changes: Sequence[float]) -> PhaseFigures:
    begin, end = phase.started_at, phase.ended_at

    def regret_from(start: float) -> float:
        return 1.0 - float(curve.goodput(start, end) / phase.best.goodput(start, end))

    last = [s for s in run.steps if s.at <= end - 1e-9]
    final = last[-1].schedule.k_at_mean(phase.load) if last else -1
    return PhaseFigures(
        label=phase.label,
        seconds=end - begin,
        best_k=phase.best_k,
        final_k=final,
        best_goodput=float(phase.best.goodput(begin, end)),
        goodput=float(curve.goodput(begin, end)),
        regret=regret_from(begin + SETTLING_SECONDS) if end - begin > SETTLING_SECONDS else None,
        overall_regret=regret_from(begin),
        seconds_to_optimum=_seconds_to_optimum(curve, phase),
        switches=sum(begin <= at < end for at in changes),
    )


def _seconds_to_optimum(curve: Curve, phase: PhaseTruth) -> float | None:
    starts = np.arange(phase.started_at, max(phase.started_at + 1.0, phase.ended_at - RECOVERY_SECONDS), 1.0)
    ends = np.minimum(starts + RECOVERY_SECONDS, phase.ended_at)
    there = curve.goodput(starts, ends) >= RECOVERED * phase.best.goodput(starts, ends)
    return float(starts[there][0] - phase.started_at) if there.any() else None


def _phase_at(truth: Truth, at: float) -> int:
    inside = (i for i, p in enumerate(truth.phases) if at <= p.ended_at + 1e-9)
    return next(inside, len(truth.phases) - 1)


def _switches(steps: Sequence[Step], truth: Truth) -> list[float]:
    """Times at which the schedule's K at the present load changed."""
    found = []
    for before, after in pairwise(steps):
        load = after.batch_size or truth.phases[_phase_at(truth, after.at)].load
        if before.schedule.k_at_mean(load) != after.schedule.k_at_mean(load):
            found.append(after.at)
    return found


def _off_table(run: Replay) -> list[tuple[float, float, float]]:
    """Return (begin, end, ratio of the pods) of every stretch off the schedule's own K."""
    pods = len({s.pod for s in run.spans})
    return [(s.started_at, s.started_at + s.seconds, 1.0 / pods) for s in run.spans if s.off_table]


def _share(off: Sequence[tuple[float, float, float]], begin: float, end: float) -> float:
    """Seconds of it between begin and end."""
    return sum(max(0.0, min(e, end) - max(b, begin)) * weight for b, e, weight in off)


def covered(speedup: Speedup, truth: float) -> bool:
    """Whether the interval holds the true ratio."""
    return speedup.low - 1e-9 <= truth <= speedup.high + 1e-9


def _reported(steps: Sequence[Step], ran: Curve, truth: Truth) -> list[tuple[Speedup, float]]:
    """Return every reported speedup, with the true one if it is known.

    It is known where batches stay, because a report is of the current batch size. Of engines that chose K at
    each step it is what they really ran in `REPORTED_SECONDS`, over a launch without a drafter. Of others it
    is that of the schedule's K in this phase.
    """
    pairs = []
    for step in steps:
        if step.speedup is None:
            continue
        index = _phase_at(truth, step.at)
        ratio = truth.speedups.get((index, step.schedule.k_at_mean(truth.phases[index].load)))
        if ratio is None:
            continue
        if step.follows:
            span = (max(0.0, step.at - REPORTED_SECONDS), step.at)
            ratio = float(ran.goodput(*span) / truth.unspeculated.goodput(*span))
        pairs.append((step.speedup, ratio))
    return pairs


def _mean(found: Sequence[float]) -> float | None:
    return sum(found) / len(found) if found else None
