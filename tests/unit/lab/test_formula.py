"""Step times from a formula, and the engine that follows an acceptance trace per request."""

from __future__ import annotations

import json

import numpy as np
import pytest

from outrider.performance.step_time import read_formula
from outrider.tuning.observe.window import Window
from outrider_lab.engines.formula_engine import FormulaPhase, acceptance_traces
from outrider_lab.scenario_runs import run_scenario, truth_of
from outrider_lab.scenarios import FormulaScenario
from outrider_protocol.schedule import Schedule
from tests.unit.lab.factories import CODE, EDGES, VISIBLE, a_step

ENTRY = json.loads(VISIBLE.read_text(encoding="utf-8"))["formulas"][0]


def a_scenario(*phases: FormulaPhase, **changes: object) -> FormulaScenario:
    return FormulaScenario("formula", a_step(), phases or (FormulaPhase(8, 150.0, CODE),), **changes)  # type: ignore[arg-type]


def test_the_published_formula_is_read_to_the_letter() -> None:
    step, acceptance = read_formula(ENTRY)
    batch, k, kv = 4, 3, 2000.0
    draft = 2.37768493e-09 * kv + 8.41429603e-07 * batch + 2.13526175e-03
    by_hand = (
        3.92645679e-08 * kv + 2.10103129e-05 * batch * (1 + k) + 5.88590713e-03 + k * draft + 0.00120683946
    )
    assert step.seconds(batch, k, kv) == pytest.approx(by_hand)
    assert acceptance["gsm8k"] == pytest.approx(
        (0.716, 0.482 / 0.716, 0.315 / 0.482, 0.206 / 0.315, 0.134 / 0.206)
    )


def test_a_step_gets_longer_by_its_growth_per_token_in_the_cache() -> None:
    step = a_step()
    for k in (0, 1, 3):
        longer = step.seconds(8, k, 5000.0) - step.seconds(8, k, 4000.0)
        assert longer == pytest.approx(1000 * step.growth(k))


def test_traces_are_accepted_as_often_as_asked_and_requests_differ() -> None:
    traces = acceptance_traces(CODE, 400, np.random.default_rng(0), drafts=500)
    by_request = (traces >= 1).mean(axis=1)
    assert by_request.mean() == pytest.approx(CODE[0], abs=0.02)
    assert by_request.std() > 0.05


def test_every_k_meets_the_same_text() -> None:
    """The first steps of K=3 accept at least what those of K=1 do."""
    seen = []
    for k in (1, 3):
        fleet = a_scenario().fleet(EDGES, np.random.default_rng(0))
        window = fleet.advance(5.0, Schedule.constant(k), None).observations[0]
        assert isinstance(window, Window)
        seen.append(window.accepted_per_position[0] / window.drafts)
    assert seen[0] == pytest.approx(seen[1], abs=0.02)


def test_its_goodput_is_that_of_the_formula() -> None:
    fleet = a_scenario().fleet(EDGES, np.random.default_rng(0))
    spans = fleet.advance(100.0, Schedule.constant(0), None).spans
    goodput = sum(s.tokens for s in spans) / sum(s.engine_seconds for s in spans)
    assert goodput == pytest.approx(8 / a_step().seconds(8, 0, 8000.0))


def test_the_best_static_k_has_no_regret() -> None:
    scenario = a_scenario()
    best = truth_of(scenario).phases[0].best_k
    assert run_scenario(scenario, f"static:{best}")[1].regret == pytest.approx(0, abs=1e-9)
