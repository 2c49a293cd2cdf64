"""vLLM's adaptive verification in simulated engines, and the model of its drafter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from outrider.performance.step_time import StepTime
from outrider.tuning.policy import Policy
from outrider_lab.engines.event_fleet import EventFleet, Plant
from outrider_lab.engines.fleet import Launch, Span, Tick
from outrider_lab.engines.formula_engine import FormulaFleet, FormulaPhase
from outrider_lab.engines.table_engine import Phase, TableFleet
from outrider_lab.engines.verification.confidence import (
    concentration_of,
    draft_probabilities,
    log_odds_of,
)
from outrider_lab.engines.verification.costs import CostCurves
from outrider_lab.engines.verification.estimator import REFIT_STEPS, AcceptanceEstimator
from outrider_lab.engines.verification.setting import AdaptiveVerification
from outrider_lab.engines.verification.trim import budgets, widths
from outrider_lab.rivals.contenders import Brief, make
from outrider_lab.scenario_runs import run_scenario, static_runs
from outrider_lab.scenarios import FormulaScenario
from outrider_lab.traffic.requests import Trace, Traffic
from outrider_protocol.schedule import Schedule
from tests.unit.lab.factories import EDGES, a_step, a_table

LAW = Policy(candidates=(0, 1, 2, 3), max_num_seqs=64)
CODE, PROSE = (0.9, 0.9, 0.88), (0.12, 0.1, 0.1)
K3 = Schedule.constant(3)
DEAR = StepTime(0.02, 5e-8, 1.2e-3, 1e-3, 5e-9, 5e-5, idle_tax=0.05)
"""Each verified token costs 6 % of an empty step."""
ADAPTIVE = AdaptiveVerification()


def test_the_budget_has_the_most_expected_tokens_per_second() -> None:
    """Two requests of two drafts: 0.9, 0.9 x 0.5 = 0.45, 0.6, 0.6 x 0.5 = 0.3. Steps of 10 ms and 2 ms per
    draft: 2 / 10, 2.9 / 12 = 0.2417, 3.5 / 14 = 0.25, 3.95 / 16 = 0.2469, 4.25 / 18. So two drafts."""
    confidences = np.array([[[0.9, 0.5], [0.6, 0.5]]])
    assert budgets(confidences, 2, np.array([10.0, 12.0, 14.0, 16.0, 18.0])).tolist() == [2]


def test_the_budget_goes_to_the_drafts_that_survive_most_likely() -> None:
    """Three of 0.9, 0.45, 0.6, 0.3: two of the first request and one of the second."""
    confidences = np.array([[[0.9, 0.5], [0.6, 0.5]]])
    assert widths(confidences, np.array([3])).tolist() == [[2, 1]]
    assert widths(confidences, np.array([0])).tolist() == [[0, 0]]


def test_the_estimate_is_a_logistic_of_the_log_odds() -> None:
    """sigmoid(0.5 x 0.4 - 0.2) = sigmoid(0) = 0.5; sigmoid(0.5 x 4.4 - 0.2) = sigmoid(2) = 0.8808."""
    assert AcceptanceEstimator(2).predict(np.array([0.4, 4.4])) == pytest.approx([0.5, 0.8808], abs=1e-4)


def test_a_fit_is_one_damped_newton_step() -> None:
    """100 drafts at log-odds 0.4, where p = 0.5, of which 80 were accepted; none of the second position.

    w = 0.25 each: a = 100 x 0.25 x 0.16 = 4, b = 10, c = 25; gradients 30 x 0.4 = 12 and 30. With the ridge
    of 0.001: slope (12 - 10 x 30 / 25.001) / (4.001 - 100 / 25.001) = 0.00048 / 0.00116 = 0.4134, damped by
    100 / 150 to 0.2756. Intercept: (30 - 10 x 0.2756) / 25.001 x 100 / 150 = 0.7265.
    """
    estimator = AcceptanceEstimator(2)
    log_odds = np.full((REFIT_STEPS, 1, 2), 0.4)
    accepted = np.where(np.arange(REFIT_STEPS) < 80, 1, 0)[:, None]
    estimator.learn(log_odds, np.ones((REFIT_STEPS, 1), int), accepted)
    assert estimator.slope == pytest.approx(0.5 + 0.2756, abs=0.002)
    assert estimator.intercepts == pytest.approx([-0.2 + 0.7265, -0.2], abs=0.002)


def test_the_estimator_learns_a_drafter_that_is_too_sure_of_itself() -> None:
    rng = np.random.default_rng(0)
    estimator = AcceptanceEstimator(1)
    for _ in range(40):
        log_odds = rng.normal(2.0, 2.0, (REFIT_STEPS, 16, 1))
        chance = 1.0 / (1.0 + np.exp(-(0.3 * log_odds[..., 0] - 1.0)))
        accepted = (rng.random(chance.shape) < chance).astype(int)
        estimator.learn(log_odds, np.ones(chance.shape, int), accepted)
    assert estimator.slope == pytest.approx(0.3, abs=0.06)
    assert estimator.intercepts[0] == pytest.approx(-1.0, abs=0.25)


def test_costs_are_those_of_dummy_batches_at_one_context() -> None:
    """With at most 4 requests of 8192 tokens: 6 tokens verify at 4 x 8192 in the cache, 2 at 2 x 8192."""
    step = a_step()
    curves = CostCurves(step, longest=3, largest_batch=4, largest_tokens=16, context=8192.0)
    seconds = curves.step(2, 2, 4)
    draft = step.draft_seconds(2, 3, 2 * 8192)
    assert seconds[0] == pytest.approx(draft + step.target_seconds(2, 2 * 8192))
    assert seconds[4] == pytest.approx(draft + step.target_seconds(6, 4 * 8192))


@pytest.mark.parametrize("separation", [0.6, 0.865, 0.95])
def test_a_drafter_separates_as_well_as_asked_and_is_calibrated(separation: float) -> None:
    rng, drafts = np.random.default_rng(1), 40_000
    runs = (rng.random(drafts) < 0.7).astype(int)
    mean = np.full((drafts, 1), 0.7)
    found = draft_probabilities(mean, runs, concentration_of(separation), rng)[:, 0]
    accepted, rejected = found[runs == 1], found[runs == 0]
    above = np.searchsorted(np.sort(rejected), accepted) / len(rejected)
    assert above.mean() == pytest.approx(separation, abs=0.01)
    likely = found > 0.75
    assert runs[likely].mean() == pytest.approx(found[likely].mean(), abs=0.01)


def test_a_drafter_shows_log_odds_for_which_the_first_coefficients_are_right() -> None:
    probabilities = np.array([0.1, 0.5, 0.9])
    assert AcceptanceEstimator(3).predict(log_odds_of(probabilities)) == pytest.approx(probabilities)


def test_a_separation_that_bounded_log_odds_cannot_give_is_refused() -> None:
    with pytest.raises(ValueError, match=r"separation is 0.999, must be from 0.5 to 0.99"):
        concentration_of(0.999)


def goodput(spans: Sequence[Span]) -> float:
    return sum(s.tokens for s in spans) / sum(s.engine_seconds for s in spans)


def _formula(step: StepTime, **text: tuple[float, ...]) -> FormulaFleet:
    phase = FormulaPhase(16, 40.0, CODE, **text)  # type: ignore[arg-type]
    return FormulaFleet(step, (phase,), edges=EDGES, rng=np.random.default_rng(0))


def _events(step: StepTime) -> EventFleet:
    traffic = Traffic(40.0, PROSE, streams=16, output=2000.0, cached=1e6)
    rng = np.random.default_rng(0)
    return EventFleet(Plant(step), Trace((traffic,)), edges=EDGES, candidates=(0, 1, 3), rng=rng)


def run(fleet: FormulaFleet | EventFleet, verification: AdaptiveVerification | None = None) -> Tick:
    fleet.launch(Launch(verification=verification))
    return fleet.advance(40.0, K3, None)


def test_trimming_gains_where_verifying_is_dear_and_half_of_the_requests_draft_badly() -> None:
    whole, trimmed = (run(_formula(DEAR, second=PROSE), setting).spans for setting in (None, ADAPTIVE))
    assert goodput(trimmed) > 1.1 * goodput(whole)


def test_nothing_is_gained_where_verifying_is_free() -> None:
    free = StepTime(0.02, 0.0, 0.0, 1e-3, 0.0, 0.0)
    whole, trimmed = (run(_formula(free), setting).spans for setting in (None, ADAPTIVE))
    assert goodput(trimmed) == pytest.approx(goodput(whole), rel=1e-3)


def test_a_drafter_that_knows_more_gains_more() -> None:
    known = [
        goodput(run(_formula(DEAR, second=PROSE), AdaptiveVerification(each)).spans) for each in (0.6, 0.9)
    ]
    assert known[1] > known[0]


def test_the_engine_of_events_gains_too_and_its_work_has_the_expected_tokens() -> None:
    """Engine seconds that another K needs for the same work do not depend on which drafts were accepted."""
    whole, trimmed = (run(_events(DEAR), setting).spans for setting in (None, ADAPTIVE))
    assert goodput(trimmed) > 1.1 * goodput(whole)
    needed = [
        sum(span.needed[3] for span in spans) / sum(s.tokens for s in spans) for spans in (whole, trimmed)
    ]
    assert needed[0] == pytest.approx(needed[1], rel=0.03)


def test_a_throughput_table_cannot_say_what_verifying_costs() -> None:
    fleet = TableFleet([Phase(8, 10.0, a_table())], edges=EDGES, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="needs --engine formula or events"):
        fleet.launch(Launch(verification=ADAPTIVE))


def test_outrider_above_it_chooses_the_draft_length_that_is_paid_for() -> None:
    """Drafting costs a third of a step for each token, so that the largest K loses; prose accepts little."""
    costly = StepTime(0.008, 2e-8, 3e-5, 3e-3, 2e-9, 3e-6, idle_tax=0.02)
    case = FormulaScenario("prose", costly, (FormulaPhase(8, 90.0, PROSE),), candidates=(0, 1, 3))
    alone, above = (goodput(run_scenario(case, name)[0].spans) for name in ("adaptive", "outrider-adaptive"))
    best = max(goodput(static.spans) for static in static_runs(case).values())
    assert alone < 0.8 * best
    assert above > 0.97 * best


@pytest.mark.parametrize(
    ("name", "separation", "context"),
    [
        ("adaptive", 0.865, 8192.0),
        ("adaptive:0.75", 0.75, 8192.0),
        ("adaptive-static:2", 0.865, 8192.0),
        ("outrider-adaptive:0.75:1000", 0.75, 1000.0),
    ],
)
def test_a_policy_names_the_drafter_and_the_context_of_its_costs(
    name: str, separation: float, context: float
) -> None:
    verification = make(name, Brief(LAW, {})).launch.verification
    assert verification == AdaptiveVerification(separation, context)


@pytest.mark.parametrize(
    "name", ["adaptive:", "adaptive:1", "adaptive:0.9:0", "adaptive:0.9:1:1", "adaptive:x"]
)
def test_a_verification_without_sense_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="adaptive takes the separation of the drafter"):
        make(name, Brief(LAW, {}))
