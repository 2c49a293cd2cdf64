"""The figures of a run under a limit on latency: how often it was broken, and what was made within it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outrider_lab.engines.fleet import Span
from outrider_lab.figures import Curve
from outrider_lab.latency import quantile
from outrider_lab.replay import Replay
from outrider_lab.scenario_runs import equal_work, static_runs, truth_of
from outrider_lab.scenarios import Scenario

SHARE = 0.9
"""Ratio of the gaps that have to keep the limit."""
WINDOW_SECONDS = 30.0
"""Over which nine of ten gaps have to keep the limit."""


@dataclass(frozen=True)
class LimitFigures:
    """Figures of one run. The oracle takes the best K of each phase among those that keep the limit."""

    broken: float  # ratio of windows in which more than a tenth of the gaps were longer
    goodput: float  # tokens per second of engine time, over the oracle's: mean over phases
    kept: float  # the same of phases in which some K keeps the limit; nan without one


def under_limit(run: Replay, scenario: Scenario, limit: float) -> LimitFigures:
    """Judge a run by a limit in seconds, at equal work."""
    truth = equal_work(run, scenario, truth_of(scenario))
    curve = Curve.of(run.spans)
    shares, kept = [], []
    for phase in truth.phases:
        within = clairvoyant(scenario, phase.started_at, phase.ended_at, limit)
        k, keeps = max(within, key=lambda pair: phase.goodputs[pair[0]])
        share = float(curve.goodput(phase.started_at, phase.ended_at)) / phase.goodputs[k]
        shares.append(share)
        kept += [share] if keeps else []
    slow = [gap > limit for gap in _percentiles(run, truth.phases[-1].ended_at)]
    return LimitFigures(_mean(slow), _mean(shares), _mean(kept))


def clairvoyant(scenario: Scenario, begin: float, end: float, limit: float) -> Sequence[tuple[int, bool]]:
    """Return the K that keep the limit if they run alone, or else the one that breaks it least."""
    gaps = {}
    for k in scenario.candidates:
        spans = static_runs(scenario)[f"static:{k}"].spans
        gaps[k] = quantile([s.gaps for s in _between(spans, begin, end)], SHARE) or 0.0
    return [(k, True) for k, gap in gaps.items() if gap <= limit] or [
        (min(gaps, key=gaps.__getitem__), False)
    ]


def _percentiles(run: Replay, end: float) -> Iterator[float]:
    begin = run.first_tick
    while begin + WINDOW_SECONDS <= end:
        found = quantile([s.gaps for s in _between(run.spans, begin, begin + WINDOW_SECONDS)], SHARE)
        if found is not None:
            yield found
        begin += WINDOW_SECONDS


def _between(spans: Sequence[Span], begin: float, end: float) -> Sequence[Span]:
    return [s for s in spans if begin - 1e-9 <= s.started_at < end - 1e-9]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")
