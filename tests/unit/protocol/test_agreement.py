"""When the steps of an engine count as those of another engine than the cost model's."""

from __future__ import annotations

import pytest

from outrider_protocol.agreement import JUDGEMENTS, STEPS_JUDGED, Agreement
from outrider_protocol.cost_model import CostModel
from tests.unit.engine_plugin.factories import a_cost_model

ENOUGH = 2 * (JUDGEMENTS + 1) * STEPS_JUDGED
"""Steps of two K after which a disagreement is found."""


def after(
    model: CostModel,
    *,
    factor: float = 1.0,
    of_k5: float = 1.0,
    steps: int = ENOUGH,
    ks: tuple[int, ...] = (0, 5),
) -> Agreement:
    """Steps of each K in turn, which last so many times what the model says."""
    agreement = Agreement(model)
    for step in range(steps):
        k = ks[step % len(ks)]
        seconds = model.seconds(k, 8, 800) * factor * (of_k5 if k == 5 else 1.0)
        agreement.add(k, 8, 800, seconds)
    return agreement


def test_steps_as_the_cost_model_says_agree() -> None:
    assert after(a_cost_model()).broken is None


@pytest.mark.parametrize("factor", [0.6, 1.5])
def test_what_all_steps_share_is_no_disagreement(factor: float) -> None:
    assert after(a_cost_model(), factor=factor).broken is None


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_a_scale_of_another_machine_is_one(factor: float) -> None:
    assert "what the cost model says" in str(after(a_cost_model(), factor=factor).broken)


@pytest.mark.parametrize("of_k5", [0.5, 2.0])
def test_a_k_that_is_dearer_or_cheaper_beside_the_others_is_one(of_k5: float) -> None:
    assert "beside those of other K" in str(after(a_cost_model(), of_k5=of_k5).broken)


def test_within_its_errors_the_cost_model_may_be_wrong() -> None:
    assert after(a_cost_model(), of_k5=1.15).broken is None


def test_few_steps_prove_nothing() -> None:
    assert after(a_cost_model(), of_k5=3.0, steps=JUDGEMENTS * STEPS_JUDGED - 1).broken is None


def test_one_k_alone_cannot_disagree_with_others() -> None:
    assert after(a_cost_model(), of_k5=2.0, ks=(5,)).broken is None


def test_a_step_that_stalls_is_not_the_engines() -> None:
    model = a_cost_model()
    agreement = Agreement(model)
    for step in range(ENOUGH):
        stalls = step % 100 == 50
        k = (0, 5)[step % 2]
        agreement.add(k, 8, 800, model.seconds(k, 8, 800) * (100.0 if stalls else 1.0))
    assert agreement.broken is None


def test_what_is_no_step_of_the_cost_model_is_left_out() -> None:
    agreement = Agreement(a_cost_model(candidates=(0, 5)))
    for _ in range(ENOUGH):
        agreement.add(3, 8, 800, 1.0)
        agreement.add(5, 8, 800, 0.0)
    assert agreement.broken is None
