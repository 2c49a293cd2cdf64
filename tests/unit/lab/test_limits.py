"""Gaps between outputs in the simulator, and the figures of a run under a limit on them."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from outrider.tuning.observe.window import Window
from outrider_lab.latency import gap_bin, quantile
from outrider_lab.limits import clairvoyant, under_limit
from outrider_lab.scenario_runs import run_scenario, static_runs
from outrider_protocol.schedule import Schedule
from tests.unit.lab.factories import EDGES, a_scenario, closed

SCENARIO = a_scenario(closed(8), seed=3)


def test_a_percentile_of_true_gaps_is_right_to_a_hundredth() -> None:
    gaps = {gap_bin(0.02): 91.0, gap_bin(0.3): 9.0}
    assert quantile([gaps], 0.9) == pytest.approx(0.02, rel=0.011)
    assert quantile([gaps, {gap_bin(0.3): 2.0}], 0.9) == pytest.approx(0.3, rel=0.011)
    assert quantile([{}], 0.9) is None


def test_the_law_sees_one_gap_for_each_request_and_step() -> None:
    fleet = SCENARIO.fleet(EDGES, np.random.default_rng(0))
    found = [fleet.advance(5.0 * i, Schedule.constant(1), None).observations[0] for i in range(1, 8)]
    windows = [o for o in found if isinstance(o, Window)]
    assert windows
    for window in windows:
        assert window.latencies is not None
        assert sum(window.latencies.counts) == pytest.approx(window.request_steps)


def test_longer_drafts_have_longer_gaps() -> None:
    gaps = [quantile((s.gaps for s in static_runs(SCENARIO)[f"static:{k}"].spans), 0.9) for k in (0, 1, 3)]
    assert gaps == sorted(gaps, key=lambda gap: gap or inf)
    assert len(set(gaps)) == 3


def test_the_clairvoyant_takes_what_keeps_the_limit_alone() -> None:
    slowest = max(s.seconds for s in static_runs(SCENARIO)["static:3"].spans)
    assert [k for k, _ in clairvoyant(SCENARIO, 0.0, 60.0, slowest)] == [0, 1, 3]
    assert clairvoyant(SCENARIO, 0.0, 60.0, 1e-4) == [(0, False)]


def test_a_run_beyond_the_limit_breaks_it_in_every_window() -> None:
    run, _ = run_scenario(SCENARIO, "static:3")
    found = under_limit(run, SCENARIO, 1e-4)
    assert found.broken == 1.0
    assert np.isnan(found.kept)
    assert found.goodput > 1.0


def test_the_best_k_within_a_limit_that_all_keep_is_the_best_k() -> None:
    scenario_best = max(
        (0, 1, 3), key=lambda k: under_limit(run_scenario(SCENARIO, f"static:{k}")[0], SCENARIO, 9.0).kept
    )
    found = under_limit(run_scenario(SCENARIO, f"static:{scenario_best}")[0], SCENARIO, 9.0)
    assert found.broken == 0.0
    assert found.kept == pytest.approx(1.0, abs=1e-6)


def test_a_rule_that_follows_the_histogram_keeps_a_limit_that_a_k_keeps() -> None:
    k1 = quantile((s.gaps for s in static_runs(SCENARIO)["static:1"].spans), 0.9)
    assert k1 is not None
    run, _ = run_scenario(SCENARIO, "latency-steps", {"inter_token_latency_limit": 0.02})
    assert max(step.schedule.k_at(8) for step in run.steps) < 3
