"""Runs of scenarios. The oracle policy is found by running every static K on the same requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from operator import mul

import numpy as np

from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.policy import Policy
from outrider_lab.engines.fleet import Span
from outrider_lab.figures import Curve, Figures, PhaseTruth, Truth, figures
from outrider_lab.maps import CONTEXTS, PROFILE_ERRORS, MapErrors, measured_map
from outrider_lab.replay import Replay, replay
from outrider_lab.rivals.contenders import Brief, make
from outrider_lab.rivals.profiled import OfflineProfile
from outrider_lab.scenarios import Scenario


def run_scenario(
    scenario: Scenario,
    tuner: str,
    policy: Mapping[str, float | None] | None = None,
    *,
    step_times: StepTimeProfile | None = None,
) -> tuple[Replay, Figures]:
    """One policy on one scenario.

    policy: parameters of the tuner's policy to change, by name.
    step_times: the profile that the tuner starts with; see `scenario_map`.

    Raises:
        ValueError: an unknown policy, or a static K that is not a candidate.
    """
    truth = truth_of(scenario)
    oracle = {phase.started_at: phase.best_k for phase in truth.phases}
    known = static_runs(scenario).get(tuner)
    run = known if known is not None else _run(scenario, tuner, policy or {}, oracle, step_times)
    return run, judged(run, scenario, truth)


def check_scenario(scenario: Scenario, tuner: str) -> None:
    """Raise ValueError for an unknown policy, or for a static K that is not a candidate."""
    law = Policy(candidates=scenario.candidates, max_num_seqs=scenario.largest_batch)
    make(tuner, Brief(law, {0.0: 0}, profile=_profile(scenario)))


def scenario_map(
    scenario: Scenario, errors: MapErrors, contexts: Sequence[float] = CONTEXTS
) -> StepTimeProfile:
    """What the engines of a scenario would measure of themselves."""

    def step_seconds(batch: float, k: int, context: float | None) -> float:
        return scenario.step_seconds(batch, k, context or 0.0)

    return measured_map(
        step_seconds,
        candidates=scenario.candidates,
        largest_batch=scenario.largest_batch,
        contexts=contexts,
        errors=errors,
        seed=scenario.seed,
    )


def judged(run: Replay, scenario: Scenario, truth: Truth) -> Figures:
    """Return the figures of a run, at equal work if the engine provides it.

    The goodput of whole runs compares policies badly, because requests differ. Under open arrivals a faster
    engine drains its queue and then has small batches, with less goodput than a slow one with a queue. Equal
    work is the time that another K needs for the expected tokens of each step, at this run's batch and
    context. So it does not depend on chance.
    """
    against_runs = figures(run, truth)
    if not run.spans[0].needed:
        return replace(against_runs, static_run_regret=against_runs.regret)
    return replace(figures(run, equal_work(run, scenario, truth)), static_run_regret=against_runs.regret)


def equal_work(run: Replay, scenario: Scenario, truth: Truth) -> Truth:
    """What every K would have made of the batches of this run."""
    curves = {k: Curve.of(run.spans, needed=i) for i, k in enumerate(scenario.candidates, start=1)}
    bare = Curve.of(run.spans, needed=0)
    phases = []
    speedups: dict[tuple[int, int], float] = {}
    for index, phase in enumerate(truth.phases):
        goodputs = {k: float(c.goodput(phase.started_at, phase.ended_at)) for k, c in curves.items()}
        best = max(goodputs, key=lambda k: (goodputs[k], -k))
        phases.append(replace(phase, goodputs=goodputs, best=curves[best]))
        if scenario.constant(index):
            none = float(bare.goodput(phase.started_at, phase.ended_at))
            speedups |= {(index, k): goodput / none for k, goodput in goodputs.items()}
    return Truth(tuple(phases), bare, speedups)


@lru_cache(maxsize=8)
def static_runs(scenario: Scenario) -> Mapping[str, Replay]:
    """Every static K, by policy name; kept."""
    return {f"static:{k}": _run(scenario, f"static:{k}", {}, {}) for k in scenario.candidates}


@lru_cache(maxsize=8)
def truth_of(scenario: Scenario) -> Truth:
    """What a scenario allows. Costs one run per K and one without drafter; kept."""
    runs = {k: static_runs(scenario)[f"static:{k}"] for k in scenario.candidates}
    curves = {k: Curve.of(run.spans) for k, run in runs.items()}
    bare = _run(scenario.without_drafter(), "static:0", {}, {})
    starts = scenario.starts
    phases = []
    for index, label in enumerate(scenario.labels):
        begin, end = starts[index], starts[index + 1]
        goodputs = {k: float(curve.goodput(begin, end)) for k, curve in curves.items()}
        best = max(goodputs, key=lambda k: (goodputs[k], -k))
        load = _mean_batch(runs[best].spans, begin, end)
        phases.append(PhaseTruth(label, begin, end, load, goodputs, curves[best]))
    truth = Truth(tuple(phases), Curve.of(bare.spans), {})
    middle = runs[scenario.candidates[len(runs) // 2]]
    return equal_work(middle, scenario, truth) if middle.spans[0].needed else truth


def _run(
    scenario: Scenario,
    tuner: str,
    policy: Mapping[str, float | None],
    oracle: Mapping[float, int],
    step_times: StepTimeProfile | None = None,
) -> Replay:
    law = Policy(candidates=scenario.candidates, max_num_seqs=scenario.largest_batch).changed(**policy)
    rng = np.random.default_rng((scenario.seed, 4))
    first_tick = float(rng.uniform(0.2, 1.0)) * scenario.interval
    fleet = scenario.fleet(law.bins, rng)
    contender = make(tuner, Brief(law, oracle, step_times=step_times, profile=_profile(scenario)))
    horizon = scenario.starts[-1]
    return replay(fleet, contender, horizon=horizon, interval=scenario.interval, first_tick=first_tick)


def _profile(scenario: Scenario) -> OfflineProfile:
    """Measured on the text of the first phase, with the error of a usual map."""
    survival = tuple(accumulate(scenario.first_acceptance, mul))
    return OfflineProfile(scenario_map(scenario, PROFILE_ERRORS), survival)


def _mean_batch(spans: Sequence[Span], begin: float, end: float) -> float:
    inside = [s for s in spans if begin - 1e-9 <= s.started_at < end - 1e-9]
    seconds = sum(s.engine_seconds for s in inside)
    return sum(s.batch_size * s.engine_seconds for s in inside) / seconds if seconds > 0 else 1.0
