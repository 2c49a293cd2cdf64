"""Where K cannot change while an engine runs, it is launched as without Outrider."""

from __future__ import annotations

import json

import pytest

from outrider.api.resource import SpeculativeModel
from outrider.plan import Plan
from outrider_protocol.methods import TRAITS, Drafter, Method, Tunability, methods_with
from tests.unit.plan.factories import a_model, a_plan, environment, flag

RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
STATIC = [method for method in methods_with(tunability=Tunability.STATIC) if method is not Method.NONE]
LIVE = methods_with(tunability=Tunability.LIVE)
OFF = {"tuning": {"mode": "Off"}}


def drafting(method: Method, **speculation: object) -> SpeculativeModel:
    weights = {"drafter": {"uri": "hf://org/drafter"}} if TRAITS[method].drafter is Drafter.REQUIRED else {}
    return a_model(method=method, speculation={**weights, **speculation}, engine={"version": "0.32.0"})


def config(result: Plan) -> dict[str, object]:
    text = flag(result, "--speculative-config")
    found: dict[str, object] = json.loads(text or "{}")
    return found


def test_without_speculation_the_engine_gets_neither_table_nor_runner() -> None:
    result = a_plan(a_model(method="none"))
    assert config(result) == {}
    assert RUNNER not in environment(result)


@pytest.mark.parametrize("method", STATIC)
def test_a_method_of_one_k_gets_neither_table_nor_runner(method: Method) -> None:
    result = a_plan(drafting(method, **OFF))
    assert "num_speculative_tokens_per_batch_size" not in config(result)
    assert RUNNER not in environment(result)


@pytest.mark.parametrize("method", LIVE)
def test_a_single_candidate_gets_neither_table_nor_runner(method: Method) -> None:
    result = a_plan(drafting(method, candidates=[5], **OFF))
    assert config(result)["num_speculative_tokens"] == 5
    assert "num_speculative_tokens_per_batch_size" not in config(result)
    assert RUNNER not in environment(result)


@pytest.mark.parametrize("method", LIVE)
def test_a_schedule_of_several_k_keeps_its_table_in_mode_off(method: Method) -> None:
    """It may be edited while the engine runs."""
    with_table = a_plan(drafting(method, **OFF))
    assert with_table.revision == a_plan(drafting(method)).revision
    assert with_table.revision != a_plan(drafting(method, candidates=[5], **OFF)).revision


def test_a_single_candidate_is_another_launch_than_the_same_k_with_a_choice() -> None:
    one = {"schedule": [{"numSpeculativeTokens": 5}], **OFF}
    several = a_plan(drafting(Method.NGRAM, candidates=[0, 5], **one))
    assert several.revision != a_plan(drafting(Method.NGRAM, candidates=[5], **one)).revision
