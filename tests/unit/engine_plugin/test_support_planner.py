"""The plugin agrees with what the planner launches: both have one table, and read it by their own names."""

from __future__ import annotations

from itertools import product

import pytest

from outrider.runtimes.vllm.arguments import speculative_config
from outrider.runtimes.vllm.methods import engine_config, unsupported_reason
from outrider_engine.vllm_adapter.support import VllmFacts, obstacle
from outrider_protocol.k_control import best_runner
from outrider_protocol.methods import TRAITS, Drafter, Method, Tunability
from outrider_protocol.releases import RESPONSES, VERSIONS, Runner, Version, variant, version_text
from tests.unit.plan.factories import a_model

DRAFTING = [method for method in Method if method is not Method.NONE]


def facts(method: Method, version: Version, ranks: int, runner: Runner) -> VllmFacts:
    config = engine_config(method)
    return VllmFacts(
        engine_version=f"{version_text(version)}.0",
        method=str(config["method"]),
        runner=runner,
        max_num_seqs=16,
        num_speculative_tokens=5,
        data_parallel_size=ranks,
        parallel_drafting=config.get("parallel_drafting", False) is True,
    )


@pytest.mark.parametrize(
    ("method", "version", "ranks", "runner"), list(product(DRAFTING, VERSIONS, (1, 2), Runner))
)
def test_the_engine_can_be_tuned_exactly_where_the_operator_says_so(
    method: Method, version: Version, ranks: int, runner: Runner
) -> None:
    supported = unsupported_reason(method, f"{version_text(version)}.0") is None
    changes = best_runner(method.variant, version, plugin=True, runners=(runner,)) is runner
    operator_tunes = supported and TRAITS[method].tunability is Tunability.LIVE and ranks == 1 and changes
    assert (obstacle(facts(method, version, ranks, runner), has_table=True) is None) is operator_tunes


@pytest.mark.parametrize("method", [m for m in DRAFTING if TRAITS[m].tunability is Tunability.LIVE])
def test_what_the_planner_launches_is_what_was_compared(method: Method) -> None:
    """The configuration of a real pod, not only its entry in the registry."""
    needed = TRAITS[method].drafter is not Drafter.FORBIDDEN
    drafter = {"drafter": {"uri": "hf://org/drafter"}} if needed else {}
    spec = a_model(method=method.value, speculation=drafter).spec
    config = speculative_config(spec)
    assert config is not None
    parallel = config.get("parallel_drafting", False) is True
    assert variant(str(config["method"]), parallel_drafting=parallel) == method.variant


def test_every_method_has_its_responses_and_no_other_row_but_these() -> None:
    assert set(RESPONSES) - {method.variant for method in DRAFTING} == {
        "extract_hidden_states",
        "eagle+parallel",
        "mtp+modules",
    }
    assert {method.variant for method in DRAFTING} <= set(RESPONSES)
