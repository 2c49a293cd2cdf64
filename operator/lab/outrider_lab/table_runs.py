"""Runs on throughput tables: any tuner, any loads, one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from outrider.performance.throughput_table import ThroughputTable
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.policy import Policy
from outrider_lab.engines.table_engine import NO_PARTS, Phase, TableFleet
from outrider_lab.figures import Curve, Figures, PhaseTruth, Truth, figures
from outrider_lab.maps import PROFILE_ERRORS, MapErrors, measured_map
from outrider_lab.replay import Replay, replay
from outrider_lab.rivals.contenders import Brief, make
from outrider_lab.rivals.profiled import OfflineProfile


@dataclass(frozen=True)
class Setting:
    """How a table is replayed."""

    loads: tuple[int, ...] = (1, 8, 32, 2)  # streams per pod, one phase each
    dwell: float = 300.0  # seconds per phase
    noise: float = 0.05  # relative, 1 sigma, of a measurement of 10 s
    interval: float = 5.0  # seconds between decisions
    speeds: tuple[float, ...] = (1.0,)  # one per pod
    seed: int = 0
    policy: Mapping[str, float | None] = field(default_factory=dict)  # parameters of the tuner to change
    map_errors: MapErrors | None = None  # of the tuner's initial profile; None: it has none
    map_of: ThroughputTable | None = None  # the profiled engine; None: the first phase's


def run_table(table: ThroughputTable, tuner: str, setting: Setting) -> tuple[Replay, Figures]:
    """One policy on one table."""
    return run_phases([Phase(load, setting.dwell, table) for load in setting.loads], tuner, setting)


def check_tuner(table: ThroughputTable, tuner: str) -> None:
    """Raise ValueError for an unknown policy, a static K that the table lacks, or adaptive verification."""
    law = Policy(candidates=table.candidates, max_num_seqs=max(table.batch_sizes))
    made = make(tuner, Brief(law, {0.0: 0}, profile=_profile([Phase(1, 1.0, table)], law, Setting())))
    if made.launch.verification is not None:
        raise ValueError(f"{tuner}: {NO_PARTS}")


def run_phases(phases: Sequence[Phase], tuner: str, setting: Setting) -> tuple[Replay, Figures]:
    """One policy on any sequence of loads and tables; all tables with the same candidates.

    Raises:
        ValueError: an unknown policy, or a static K that is not a candidate.
    """
    candidates = phases[0].table.candidates
    largest = max(*(p.load for p in phases), *(b for p in phases for b in p.table.batch_sizes))
    law = Policy(candidates=candidates, max_num_seqs=largest).changed(**setting.policy)
    truth = table_truth(phases, setting.speeds)
    oracle = {p.started_at: p.best_k for p in truth.phases}
    step_times = None
    if setting.map_errors is not None:
        mapped = setting.map_of or phases[0].table
        step_times = table_map(mapped, law, setting.map_errors, setting.seed)
    contender = make(tuner, Brief(law, oracle, step_times=step_times, profile=_profile(phases, law, setting)))
    rng = np.random.default_rng(setting.seed)
    first_tick = float(rng.uniform(0.2, 1.0)) * setting.interval
    fleet = TableFleet(phases, edges=law.bins, rng=rng, noise=setting.noise, speeds=setting.speeds)
    horizon = truth.phases[-1].ended_at
    run = replay(fleet, contender, horizon=horizon, interval=setting.interval, first_tick=first_tick)
    return run, figures(run, truth)


def _profile(phases: Sequence[Phase], law: Policy, setting: Setting) -> OfflineProfile:
    """Measured on the text of the first phase, with the error of a usual map."""
    table = phases[0].table
    step_times = table_map(table, law, PROFILE_ERRORS, setting.seed)
    return OfflineProfile(step_times, table.survival(phases[0].load, max(law.candidates)))


def table_map(table: ThroughputTable, law: Policy, errors: MapErrors, seed: int) -> StepTimeProfile:
    """What an engine that lives on this table would measure of itself."""

    def step_seconds(batch: float, k: int, context: float | None) -> float:  # noqa: ARG001
        return batch * (1.0 + sum(table.survival(batch, k))) / table.goodput(batch, k)

    contexts = (table.context_length or None,)
    candidates = [k for k in law.candidates if k in table.candidates]
    return measured_map(
        step_seconds,
        candidates=candidates,
        largest_batch=law.max_num_seqs,
        contexts=contexts,
        errors=errors,
        seed=seed,
    )


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
