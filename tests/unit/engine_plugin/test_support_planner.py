"""The plugin and the operator's planner say the same of every engine, each from a table of its own."""

from __future__ import annotations

from itertools import product

import pytest

from outrider.api.methods import TRAITS, Method, Tunability
from outrider.plan.runtimes.vllm import matrix
from outrider.plan.runtimes.vllm.arguments import speculative_config
from outrider.plan.runtimes.vllm.known_defects import KNOWN_DEFECTS
from outrider.plan.runtimes.vllm.methods import ENGINE_METHODS, unsupported_reason
from outrider_engine.control import support
from tests.unit.plan.factories import a_model

RUNNERS = {matrix.Runner.V1: support.Runner.V1, matrix.Runner.V2: support.Runner.V2}
VERSIONS = matrix.known_versions()
DRAFTING = [method for method in Method if method is not Method.NONE]


def name_in_the_engine(method: Method) -> str:
    """The name by which the plugin knows what the planner configures for a method."""
    config = ENGINE_METHODS[method].config
    return support.variant(
        str(config["method"]), parallel_drafting=config.get("parallel_drafting", False) is True
    )


def facts(method: Method, runner: support.Runner, version: matrix.Version, ranks: int) -> support.EngineFacts:
    config = ENGINE_METHODS[method].config
    return support.EngineFacts(
        engine_version=f"{matrix.version_text(version)}.0",
        method=str(config["method"]),
        runner=runner,
        max_num_seqs=16,
        num_speculative_tokens=5,
        data_parallel_size=ranks,
        parallel_drafting=config.get("parallel_drafting", False) is True,
    )


def test_both_were_checked_with_the_same_versions() -> None:
    assert (matrix.OLDEST_VERSION, matrix.NEWEST_VERSION) == (support.OLDEST_VERSION, support.NEWEST_VERSION)


def test_both_know_the_same_responses() -> None:
    assert [entry.value for entry in matrix.Response] == [entry.value for entry in support.Response]


@pytest.mark.parametrize(("method", "runner"), list(product(DRAFTING, matrix.Runner)))
def test_both_give_the_same_response_for_every_version(method: Method, runner: matrix.Runner) -> None:
    name, other = name_in_the_engine(method), RUNNERS[runner]
    ours = [matrix.response(method, runner, version).value for version in VERSIONS]
    assert ours == [support.response(name, other, version).value for version in VERSIONS]


@pytest.mark.parametrize(("method", "version", "ranks"), list(product(DRAFTING, VERSIONS, (1, 2))))
def test_the_engine_can_be_tuned_exactly_where_the_operator_says_so(
    method: Method, version: matrix.Version, ranks: int
) -> None:
    """On V1, where the operator launches whatever V2 cannot tune."""
    supported = unsupported_reason(method, f"{matrix.version_text(version)}.0") is None
    operator_tunes = supported and TRAITS[method].tunability is Tunability.LIVE and ranks == 1
    reason = support.obstacle(facts(method, support.Runner.V1, version, ranks), has_table=True)
    assert (reason is None) is operator_tunes


@pytest.mark.parametrize("method", [m for m in DRAFTING if TRAITS[m].tunability is Tunability.LIVE])
def test_what_the_planner_launches_is_what_was_compared(method: Method) -> None:
    """The configuration of a real pod, not only its entry in the registry."""
    drafter = {} if method is Method.NGRAM else {"drafter": {"uri": "hf://org/drafter"}}
    spec = a_model(method=method.value, speculation=drafter).spec
    config = speculative_config(spec)
    assert config is not None
    parallel = config.get("parallel_drafting", False) is True
    launched = support.variant(str(config["method"]), parallel_drafting=parallel)
    assert launched == name_in_the_engine(method)


def test_the_plugin_has_no_row_that_the_planner_cannot_make_but_these() -> None:
    reachable = {name_in_the_engine(method) for method in DRAFTING}
    assert set(support.MATRIX) - reachable == {
        "extract_hidden_states",
        "eagle+parallel",
        "mtp+modules",
    }


def test_both_know_the_release_from_which_recurrent_targets_are_right() -> None:
    stale = next(defect for defect in KNOWN_DEFECTS if defect.name == "recurrent-state")
    assert stale.until == support.RECURRENT_STATES_RIGHT
