"""Adaptive verification as a launch: its flag, and the manifests that no engine could carry out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outrider.api.reasons import DegradedReason
from outrider.plan import Plan
from outrider_protocol.methods import Method
from outrider_protocol.releases import ADAPTIVE_SINCE, VERSIONS, Response, Runner, response, version_text
from tests.unit.plan.factories import CPU, a_model, a_plan, flag

KEY = "enable_adaptive_verification"
WITH_WEIGHTS = {"drafter": {"uri": "hf://org/drafter"}}


def planned(method: str = "eagle3", *, verification: str = "Adaptive", **spec: Any) -> Plan:
    speculation = {
        **({} if method == "mtp" else WITH_WEIGHTS),
        "verification": verification,
        "tuning": {"mode": "Off"},
        **spec.pop("speculation", {}),
    }
    return a_plan(a_model(method=method, speculation=speculation, **spec))


def refusal(method: str = "eagle3", **spec: Any) -> str:
    ((reason, message),) = planned(method, **spec).problems
    assert reason is DegradedReason.UNSUPPORTED
    return message


def engine(**fields: object) -> dict[str, Any]:
    return {"engine": {"image": "engine:1", **fields}}


def launched(result: Plan) -> dict[str, object]:
    text = flag(result, "--speculative-config")
    assert text is not None, result.problems
    found: dict[str, object] = json.loads(text)
    return found


def test_adaptive_sets_vllms_key_and_fixed_leaves_it_out() -> None:
    assert launched(planned())[KEY] is True
    assert KEY not in launched(planned(verification="Fixed"))


@pytest.mark.parametrize("method", sorted(ADAPTIVE_SINCE))
def test_a_release_verifies_a_method_adaptively_from_its_first_one_on(method: str) -> None:
    for version in VERSIONS:
        result = planned(method, **engine(version=f"{version_text(version)}.0"))
        if version >= ADAPTIVE_SINCE[method]:
            assert result.problems == ()
        else:
            assert f"has no adaptive verification for method {method}; set" in result.problems[0][1]


TUNED: dict[str, Any] = {"speculation": {"tuning": {}}}
TABLE = "num_speculative_tokens_per_batch_size"


def test_a_tuned_engine_has_every_candidate_in_its_flags() -> None:
    """They bound what vLLM drafts, and its trim comes after."""
    flags = launched(planned(**TUNED, **engine(version="0.32.0")))
    rows = flags[TABLE]
    assert isinstance(rows, list)
    assert {k for *_, k in rows} == {0, 1, 2, 3, 5}
    assert flags[KEY] is True


def test_an_engine_that_is_not_tuned_keeps_its_k() -> None:
    assert TABLE not in launched(planned(**engine(version="0.32.0")))


@pytest.mark.parametrize("method", ["draft_model", "eagle3", "mtp"])
def test_a_release_whose_v2_runner_changes_no_k_is_not_tuned_above_it(method: str) -> None:
    """V1 would change K, and verifies every draft."""
    message = refusal(method, **TUNED, **engine(version="0.31.0"))
    assert f"vLLM 0.31.0 changes no K of {method} on V2" in message
    assert "set spec.engine.version: 0.32.0 or newer" in message
    assert planned(method, **TUNED, **engine(version="0.32.0")).problems == ()


@pytest.mark.parametrize("method", sorted(ADAPTIVE_SINCE))
def test_the_v2_runner_has_every_method_that_it_verifies_adaptively(method: str) -> None:
    on_v2 = response(Method(method).variant, Runner.V2, ADAPTIVE_SINCE[method])
    assert on_v2 is not Response.ABSENT


def test_a_launch_without_a_gpu_is_refused() -> None:
    assert "needs CUDA graphs, and spec.resources has no GPU" in refusal(resources=CPU)


def test_pipeline_stages_are_refused() -> None:
    assert "set spec.parallelism.pipeline: 1" in refusal(parallelism={"pipeline": 2})


def test_the_v1_runner_is_refused() -> None:
    assert "set spec.engine.modelRunner: Auto" in refusal(**engine(modelRunner="V1"))


@pytest.mark.parametrize("name", ["enable-lora", "enable_lora", "enforce-eager"])
def test_flags_with_which_vllm_ends_are_refused_by_name(name: str) -> None:
    assert f"leave out spec.engine.args.{name.replace('_', '-')}" in refusal(**engine(args={name: True}))
    assert planned(**engine(args={name: False})).problems == ()


def test_a_drafter_that_makes_no_logits_is_refused() -> None:
    message = refusal(speculation={"config": {"use_local_argmax_reduction": True}})
    assert "leave out spec.speculation.config.use_local_argmax_reduction" in message


def test_every_refusal_names_fixed_as_the_way_out() -> None:
    assert refusal(resources=CPU).endswith("or set spec.speculation.verification: Fixed")
    assert refusal(**engine(version="0.28.0")).endswith("or spec.speculation.verification: Fixed")
