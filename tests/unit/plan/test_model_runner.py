"""Which model runner an engine is launched with, and how it comes by its table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outrider.api.reasons import DegradedReason
from outrider.api.resource import SpeculativeModel
from outrider.plan import Plan
from outrider.runtimes import runtime_of
from outrider_protocol.k_control import best_runner
from outrider_protocol.methods import TRAITS, Drafter, Method, Tunability, methods_with
from outrider_protocol.releases import VERSIONS, Runner, version_text
from tests.unit.plan.factories import CPU, a_model, a_plan, environment, flag

RUNNER, CANDIDATES = "VLLM_USE_V2_MODEL_RUNNER", "OUTRIDER_CANDIDATES"
TABLE = "num_speculative_tokens_per_batch_size"
LIVE = methods_with(tunability=Tunability.LIVE)
IMAGE = {"image": "engine:1"}


def live(
    method: Method, *, version: str = "0.33.0", runner: str | None = None, **spec: Any
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
EVERY_RUNNER = tuple(Runner)


def on_v1(method: Method) -> tuple[str | None, bool, str | None]:
    """Where V1 is the only runner. A head of unknown layout gets one K: `tests/unit/plan/test_heads.py`."""
    has_k = best_runner(method.variant, VERSIONS[-1], plugin=True, runners=(Runner.V1,)) is Runner.V1
    return V1_WITH_THE_PLUGIN if has_k and method is not Method.DFLASH else ONE_K


@pytest.mark.parametrize("method", LIVE)
@pytest.mark.parametrize("version", VERSIONS)
def test_on_a_gpu_the_table_is_in_the_configuration_exactly_where_k_is_changed_on_v2(
    method: Method, version: tuple[int, int]
) -> None:
    result = a_plan(live(method, version=f"{version_text(version)}.0"))
    on_v2 = best_runner(method.variant, version, plugin=True) is Runner.V2
    assert launched(result) == (VLLM_CHOOSES if on_v2 else on_v1(method))


@pytest.mark.parametrize("method", [m for m in LIVE if TRAITS[m].same_cost])
def test_a_draft_that_costs_the_same_for_every_k_is_verified_at_a_width_on_v2_from_0_32_on(
    method: Method,
) -> None:
    assert launched(a_plan(live(method, version="0.31.0"))) == on_v1(method)
    assert launched(a_plan(live(method, version="0.32.0"))) == VLLM_CHOOSES


@pytest.mark.parametrize("method", [Method.EAGLE, Method.EAGLE3, Method.MTP])
def test_v2_follows_k_of_these_methods_from_0_32_on(method: Method) -> None:
    assert launched(a_plan(live(method, version="0.31.0"))) == V1_WITH_THE_PLUGIN
    assert launched(a_plan(live(method, version="0.32.0"))) == VLLM_CHOOSES


@pytest.mark.parametrize("method", LIVE)
def test_without_a_gpu_every_live_method_runs_on_v1(method: Method) -> None:
    assert launched(a_plan(live(method, resources=CPU))) == on_v1(method)


@pytest.mark.parametrize("method", [m for m in LIVE if m not in (Method.DSPARK, Method.NGRAM_GPU)])
def test_a_spec_that_names_v1_gets_it(method: Method) -> None:
    assert launched(a_plan(live(method, runner="V1"))) == V1_WITH_THE_PLUGIN


def test_a_look_up_on_the_gpu_keeps_one_k_on_v1() -> None:
    assert launched(a_plan(live(Method.NGRAM_GPU, runner="V1"))) == ("0", False, None)


@pytest.mark.parametrize("args", [{"enable-dbo": True}, {"ubatch-size": 2}])
@pytest.mark.parametrize("method", [Method.EAGLE3, Method.NGRAM])
def test_a_launch_that_v2_lacks_a_feature_of_is_tuned_on_v1(method: Method, args: dict[str, object]) -> None:
    model = live(method, version="0.32.0")
    engine = model.spec.engine.model_copy(update={"args": args})
    divided = model.model_copy(update={"spec": model.spec.model_copy(update={"engine": engine})})
    assert launched(a_plan(divided)) == V1_WITH_THE_PLUGIN
    assert "V2 does not draft with enable-dbo or ubatch-size" in " ".join(advice(divided))


def test_a_drafter_of_another_vocabulary_is_tuned_on_v1() -> None:
    model = live(Method.DRAFT_MODEL)
    wanted = model.spec.speculation.model_copy(update={"config": {"use_heterogeneous_vocab": True}})
    mapped = model.model_copy(update={"spec": model.spec.model_copy(update={"speculation": wanted})})
    assert launched(a_plan(mapped)) == V1_WITH_THE_PLUGIN
    assert "V2 does not have use_heterogeneous_vocab" in " ".join(advice(mapped))


def advice(model: SpeculativeModel) -> tuple[str, ...]:
    return runtime_of(model.spec).advice(model.spec, model.status.weights)


def test_on_a_gpu_advice_says_why_k_is_changed_on_v1_and_what_to_do() -> None:
    text, *_ = advice(live(Method.EAGLE3, version="0.31.0"))
    assert text.startswith("K changes on vLLM's V1 runner, which has full CUDA graphs for the maximum K only")
    assert "set spec.engine.version: 0.32.0 or newer" in text
    assert advice(live(Method.EAGLE3)) == advice(live(Method.EAGLE3, runner="V1")) == ()


@pytest.mark.parametrize(
    ("version", "name"), [("0.31.0", "ngram"), ("0.32.0", "ngram_gpu"), ("0.33.0", "ngram")]
)
@pytest.mark.parametrize("candidates", [[0, 5], [5]])
def test_n_gram_has_the_name_with_which_v2_schedules_asynchronously(
    version: str, name: str, candidates: list[int]
) -> None:
    speculation = {"candidates": candidates, "tuning": {"mode": "Off"}}
    model = a_model(method="ngram", speculation=speculation, engine={"version": version, **IMAGE})
    config = json.loads(flag(a_plan(model), "--speculative-config") or "{}")
    assert config["method"] == name
    others: tuple[dict[str, Any], ...] = (
        {"engine": {"version": version, **IMAGE, "modelRunner": "V1"}},
        {"resources": CPU},
    )
    for other in others:
        shown = a_plan(
            a_model(method="ngram", speculation=speculation, **{"engine": model.spec.engine, **other})
        )
        assert json.loads(flag(shown, "--speculative-config") or "{}")["method"] == "ngram"


def test_whoever_names_v2_gets_it_also_without_a_gpu() -> None:
    """Such as for a stand-in."""
    assert launched(a_plan(live(Method.EAGLE3, runner="V2", resources=CPU))) == ("1", True, None)


def test_a_stock_engine_has_its_table_in_the_configuration_whatever_it_costs() -> None:
    stock = {"candidates": [0, 5], "tuning": {"actuation": "Rollout"}}
    old = {"version": "0.31.0", **IMAGE}
    assert launched(a_plan(a_model(method="ngram", speculation=stock, engine=old))) == ("0", True, None)
    assert launched(a_plan(a_model(method="ngram", speculation=stock))) == (None, True, None)


def test_a_launch_without_a_table_takes_the_runner_that_is_named() -> None:
    plain = a_plan(a_model(method="none", engine={"modelRunner": "V1"}))
    assert launched(plain) == ("0", False, None)


@pytest.mark.parametrize(
    ("method", "version", "runner", "told"),
    [
        (Method.DRAFT_MODEL, "0.31.0", "V2", "does not change K of draft_model while it runs"),
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
