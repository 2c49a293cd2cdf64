"""Which model runner an engine is launched with, and how it comes by its table."""

from __future__ import annotations

import json

import pytest

from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.plan import Plan
from outrider_protocol.methods import TRAITS, Drafter, Method, Tunability, methods_with
from outrider_protocol.releases import VERSIONS, Response, Runner, response, version_text
from tests.unit.plan.factories import CPU, a_model, a_plan, environment, flag

RUNNER, CANDIDATES = "VLLM_USE_V2_MODEL_RUNNER", "OUTRIDER_CANDIDATES"
TABLE = "num_speculative_tokens_per_batch_size"
LIVE = methods_with(tunability=Tunability.LIVE)
IMAGE = {"image": "engine:1"}


def live(
    method: Method, *, version: str = "0.33.0", runner: str | None = None, **spec: object
) -> SpeculativeModel:
    weights = {"drafter": {"uri": "hf://org/drafter"}} if TRAITS[method].drafter is Drafter.REQUIRED else {}
    speculation = {**weights, "candidates": [0, 1, 5]}
    engine = {"version": version, **IMAGE, **({} if runner is None else {"modelRunner": runner})}
    return a_model(method=method, speculation=speculation, engine=engine, **spec)


def launched(result: Plan) -> tuple[str | None, bool, str | None]:
    """The runner in vLLM's environment, whether it gets a table, and the candidates that the plugin has."""
    variables = environment(result)
    config = json.loads(flag(result, "--speculative-config") or "{}")
    return variables.get(RUNNER), TABLE in config, variables.get(CANDIDATES)


VLLM_CHOOSES = (None, True, None)
V1_WITH_THE_PLUGIN = ("0", False, "0,1,5")
ONE_K = (None, False, None)
"""A head of unknown layout: `tests/unit/plan/test_heads.py`."""


@pytest.mark.parametrize("method", LIVE)
@pytest.mark.parametrize("version", VERSIONS)
def test_on_a_gpu_the_table_is_in_the_configuration_exactly_where_v2_follows_k(
    method: Method, version: tuple[int, int]
) -> None:
    follows = response(method.variant, Runner.V2, version) is Response.FOLLOWS
    result = a_plan(live(method, version=f"{version_text(version)}.0"))
    v1 = ONE_K if method is Method.DFLASH else V1_WITH_THE_PLUGIN
    assert launched(result) == (VLLM_CHOOSES if follows else v1)


@pytest.mark.parametrize("method", [Method.EAGLE, Method.EAGLE3, Method.MTP])
def test_v2_follows_k_of_these_methods_from_0_32_on(method: Method) -> None:
    assert launched(a_plan(live(method, version="0.31.0"))) == V1_WITH_THE_PLUGIN
    assert launched(a_plan(live(method, version="0.32.0"))) == VLLM_CHOOSES


@pytest.mark.parametrize("method", LIVE)
def test_without_a_gpu_every_live_method_runs_on_v1(method: Method) -> None:
    expected = ONE_K if method is Method.DFLASH else V1_WITH_THE_PLUGIN
    assert launched(a_plan(live(method, resources=CPU))) == expected


@pytest.mark.parametrize("method", LIVE)
def test_whoever_names_v1_gets_it(method: Method) -> None:
    assert launched(a_plan(live(method, runner="V1"))) == V1_WITH_THE_PLUGIN


def test_whoever_names_v2_gets_it_also_without_a_gpu() -> None:
    """Such as for a stand-in."""
    assert launched(a_plan(live(Method.EAGLE3, runner="V2", resources=CPU))) == ("1", True, None)


def test_a_stock_engine_has_its_table_in_the_configuration_whatever_it_costs() -> None:
    stock = {"candidates": [0, 5], "tuning": {"actuation": "Rollout"}}
    assert launched(a_plan(a_model(method="ngram", speculation=stock))) == ("0", True, None)


def test_a_launch_without_a_table_takes_the_runner_that_is_named() -> None:
    plain = a_plan(a_model(method="none", engine={"modelRunner": "V1"}))
    assert launched(plain) == ("0", False, None)


@pytest.mark.parametrize(
    ("method", "version", "runner", "told"),
    [
        (Method.DRAFT_MODEL, "0.33.0", "V2", "does not change K of draft_model while it runs"),
        (Method.EAGLE3, "0.31.0", "V2", "does not change K of eagle3 while it runs"),
        (Method.NGRAM, "0.31.0", "V2", "has no method ngram; set spec.engine.modelRunner: Auto"),
    ],
)
def test_a_runner_that_cannot_tune_the_model_is_told_before_any_pod(
    method: Method, version: str, runner: str, told: str
) -> None:
    result = a_plan(live(method, version=version, runner=runner))
    ((reason, message),) = result.problems
    assert reason is DegradedReason.UNSUPPORTED
    assert message.startswith(f"the {runner} runner of vLLM {version} {told}")


def test_one_candidate_runs_on_a_runner_that_could_not_tune_it() -> None:
    one = {"drafter": {"uri": "hf://org/drafter"}, "candidates": [5], "tuning": {"mode": "Off"}}
    model = a_model(method="draft_model", speculation=one, engine={"modelRunner": "V2"})
    assert launched(a_plan(model)) == ("1", False, None)
