"""Runs on throughput tables: any tuner, any loads, one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np

from outrider.simulate.engines.table import ThroughputTable
from outrider.simulate.engines.table_engine import Phase, TableFleet
from outrider.simulate.figures import Curve, Figures, PhaseTruth, Truth, figures
from outrider.simulate.replay import Replay, replay
from outrider.simulate.rivals.contenders import Brief, make
from outrider.tuning.policy import Policy


@dataclass(frozen=True)
class Setting:
    """How a table is replayed."""

    loads: tuple[int, ...] = (1, 8, 32, 2)  # streams per pod, one phase each
    dwell: float = 300.0  # seconds per phase
    noise: float = 0.05  # relative, 1 sigma, of a measurement of 10 s
    interval: float = 5.0  # seconds between decisions
    speeds: tuple[float, ...] = (1.0,)  # one per pod
    seed: int = 0
    policy: Mapping[str, object] = field(default_factory=dict)  # fields of the law's policy to replace


def run_table(table: ThroughputTable, tuner: str, setting: Setting) -> tuple[Replay, Figures]:
    """One policy on one table."""
    return run_phases([Phase(load, setting.dwell, table) for load in setting.loads], tuner, setting)


def check_tuner(table: ThroughputTable, tuner: str) -> None:
    """Raise ValueError for an unknown policy, or for a static K that the table lacks."""
    make(tuner, Brief(Policy(candidates=table.candidates, max_num_seqs=max(table.batch_sizes)), {0.0: 0}))


def run_phases(phases: Sequence[Phase], tuner: str, setting: Setting) -> tuple[Replay, Figures]:
    """One policy on any sequence of loads and tables; all tables with the same candidates.

    Raises:
        ValueError: an unknown policy, or a static K that is no candidate.
    """
    candidates = phases[0].table.candidates
    largest = max(*(p.load for p in phases), *(b for p in phases for b in p.table.batch_sizes))
    law = replace(Policy(candidates=candidates, max_num_seqs=largest), **setting.policy)  # type: ignore[arg-type]
    truth = table_truth(phases, setting.speeds)
    oracle = {p.started_at: p.best_k for p in truth.phases}
    contender = make(tuner, Brief(law, oracle))
    rng = np.random.default_rng(setting.seed)
    first_tick = float(rng.uniform(0.2, 1.0)) * setting.interval
    fleet = TableFleet(phases, edges=law.bins, rng=rng, noise=setting.noise, speeds=setting.speeds)
    horizon = truth.phases[-1].ended_at
    run = replay(fleet, contender, horizon=horizon, interval=setting.interval, first_tick=first_tick)
    return run, figures(run, truth)


def table_truth(phases: Sequence[Phase], speeds: Sequence[float] = (1.0,)) -> Truth:
    """What each phase allows, from the table itself."""
    starts = [0.0, *accumulate(p.seconds for p in phases)]
    found, speedups = [], {}
    for index, phase in enumerate(phases):
        goodputs = {k: phase.table.goodput(phase.load, k) * sum(speeds) for k in phase.table.candidates}
        begin, end = starts[index], starts[index + 1]
        # The curve gives goodput per second of engine time, so one pod's mean stands for all.
        best = _constant(begin, end, max(goodputs.values()), len(speeds))
        found.append(PhaseTruth(f"load {phase.load}", begin, end, phase.load, goodputs, best))
        none = phase.table.no_speculation(phase.load)
        for k in phase.table.candidates:
            speedups[index, k] = phase.table.goodput(phase.load, k) / none
    seconds = np.array(starts) * len(speeds)
    rates = [p.table.no_speculation(p.load) * sum(speeds) * p.seconds for p in phases]
    base_curve = Curve(np.array(starts), np.array([0.0, *accumulate(rates)]), seconds)
    return Truth(tuple(found), base_curve, speedups)


def _constant(begin: float, end: float, goodput: float, pods: int) -> Curve:
    length = end - begin
    return Curve(np.array([begin, end]), np.array([0.0, goodput * length]), np.array([0.0, pods * length]))
