"""Keys of vLLM's own speculative configuration, as a spec gives them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from outrider.api.speculative_config import OWNED_KEYS
from outrider.plan import Plan
from outrider.runtimes.vllm.methods import ENGINE_METHODS
from outrider_protocol.releases import DEFAULT_RELEASE
from tests.unit.plan.factories import a_model, a_plan, flag

OFF = {"mode": "Off"}


def config(**own: object) -> dict[str, object]:
    text = flag(a_plan(a_model(speculation={"config": own})), "--speculative-config")
    assert text is not None
    found: dict[str, object] = json.loads(text)
    return found


def test_they_reach_the_engine_beside_those_of_the_method() -> None:
    found = config(max_model_len=4096, quantization="fp8", enforce_eager=True)
    assert (found["max_model_len"], found["quantization"], found["enforce_eager"]) == (4096, "fp8", True)
    assert (found["method"], found["num_speculative_tokens"]) == ("ngram", 5)


def test_they_replace_what_the_method_has_by_default() -> None:
    assert (config()["prompt_lookup_max"], config(prompt_lookup_max=8)["prompt_lookup_max"]) == (5, 8)


@pytest.mark.parametrize(
    "half",
    [{"prompt_lookup_max": 4}, {"prompt_lookup_max": 1}, {"prompt_lookup_min": 3}, {"prompt_lookup_min": 9}],
)
def test_half_of_a_pair_is_left_for_vllm_to_complete(half: dict[str, int]) -> None:
    """vLLM takes the half that is said for both; a half of ours could contradict it."""
    assert {key: value for key, value in config(**half).items() if "lookup" in key} == half


@pytest.mark.parametrize("key", OWNED_KEYS)
def test_what_another_field_sets_is_refused(key: str) -> None:
    with pytest.raises(ValidationError, match=f"config.{key} is set by Outrider"):
        a_model(speculation={"config": {key: 1}})


@pytest.mark.parametrize("key", ["Method", "prompt-lookup-max", "", "a" * 65, "a.b"])
def test_what_can_be_no_key_is_refused(key: str) -> None:
    with pytest.raises(ValidationError, match="is not a key of vLLM"):
        a_model(speculation={"config": {key: 1}})


def test_no_key_that_the_planner_sets_can_be_given() -> None:
    """Apart from those that a method only suggests."""
    suggested = {"prompt_lookup_min", "prompt_lookup_max"}
    set_by_methods = {key for method in ENGINE_METHODS.values() for key in method.config}
    drafted = a_model(
        method="eagle3", speculation={"drafter": {"uri": "hf://org/drafter", "revision": "main"}}
    )
    text = flag(a_plan(drafted), "--speculative-config")
    assert text is not None
    assert {*json.loads(text), *set_by_methods} - suggested <= set(OWNED_KEYS)


def planned(method: str, *, version: str = DEFAULT_RELEASE, **speculation: object) -> Plan:
    static = {"tuning": {"mode": "Off"}, "numSpeculativeTokens": None, **speculation}
    return a_plan(a_model(method=method, speculation=static, engine={"version": version}))


def launched(result: Plan) -> dict[str, object]:
    text = flag(result, "--speculative-config")
    assert text is not None, result.problems
    found: dict[str, object] = json.loads(text)
    return found


def test_suffix_decoding_has_a_length_of_its_own() -> None:
    assert launched(planned("suffix")) == {"method": "suffix"}
    assert a_model(
        method="suffix", speculation={"numSpeculativeTokens": None, "tuning": OFF}
    ).spec.candidates() == (24,)


def test_a_dspark_head_has_a_length_of_its_own_from_the_release_that_reads_it() -> None:
    head: dict[str, Any] = {"drafter": {"uri": "hf://deepseek-ai/dspark_qwen3_8b_block7"}}
    assert launched(planned("dspark", **head)) == {
        "method": "dspark",
        "model": "deepseek-ai/dspark_qwen3_8b_block7",
    }
    message = planned("dspark", version="0.30.0", **head).problems[0][1]
    assert "block_size" in message
    assert "0.31.0" in message


@pytest.mark.parametrize("method", ["dflash", "dspark", "suffix"])
def test_methods_with_a_length_of_their_own_are_not_advised_to_take_another(method: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        a_model(method=method, speculation={"numSpeculativeTokens": None, "candidates": [3]})
    assert "3 to 5" not in str(refusal.value)


def test_ngram_on_the_gpu_is_said_as_vllm_says_it() -> None:
    found = launched(planned("ngram_gpu", numSpeculativeTokens=4))
    assert (found["method"], found["num_speculative_tokens"]) == ("ngram_gpu", 4)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("deepseek_mtp", "mtp"),
        ("qwen3_next_mtp", "mtp"),
        ("assistant", "mtp"),
        ("[ngram]", "ngram"),
        ("eagle-3", "eagle3"),
    ],
)
def test_other_names_of_a_method_are_answered_with_the_name_here(written: str, meant: str) -> None:
    with pytest.raises(ValidationError, match=f"spec.speculation.method: write {meant} for"):
        a_model(method=written)
