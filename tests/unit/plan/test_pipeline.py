"""Drafts over pipeline stages: only vLLM's V2 runner has them, and only for some methods and releases."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.api.reasons import DegradedReason
from tests.unit.plan.factories import CPU, a_model, a_plan, environment, flag

STAGES = {"pipeline": 2}
RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
HEAD = {"drafter": {"uri": "hf://org/drafter"}}
ONE_K = {"candidates": [5], "tuning": {"mode": "Off"}}


def refusal(method: str, version: str, **spec: Any) -> str | None:
    speculation = {**(HEAD if method in ("eagle3", "dspark") else {}), **spec.pop("speculation", {})}
    engine = {"version": version, "image": "engine:1"}
    model = a_model(method=method, speculation=speculation, engine=engine, parallelism=STAGES, **spec)
    problems = a_plan(model).problems
    assert all(reason is DegradedReason.UNSUPPORTED for reason, _ in problems)
    return problems[0][1] if problems else None


@pytest.mark.parametrize("method", ["mtp", "eagle3"])
@pytest.mark.parametrize("version", ["0.32.0", "0.33.0"])
def test_a_head_is_tuned_live_over_stages_where_v2_follows_k(method: str, version: str) -> None:
    assert refusal(method, version) is None


@pytest.mark.parametrize("method", ["mtp", "eagle3"])
def test_where_only_v1_follows_k_no_pod_is_made_that_would_end_at_its_first_step(method: str) -> None:
    told = refusal(method, "0.31.0")
    assert told is not None
    assert "changes on the V1 runner, and the engine ends at its first step" in told
    assert "tuning.mode: Off" in told


@pytest.mark.parametrize("method", ["mtp", "eagle3", "dspark"])
def test_one_k_leaves_the_runner_to_vllm_which_takes_v2(method: str) -> None:
    assert refusal(method, "0.31.0", speculation=ONE_K) is None


@pytest.mark.parametrize("method", ["mtp", "eagle3", "dspark"])
def test_older_releases_have_no_drafts_over_stages(method: str) -> None:
    told = refusal(method, "0.29.0", speculation=ONE_K)
    assert told is not None
    assert "set spec.engine.version: 0.30.0 or newer, or spec.parallelism.pipeline: 1" in told


def test_without_a_gpu_there_is_only_v1() -> None:
    told = refusal("mtp", "0.33.0", resources=CPU)
    assert told is not None
    assert "V1 runner" in told


def test_stages_without_drafts_run_on_any_runner() -> None:
    assert refusal("none", "0.26.0") is None


def test_an_engine_that_verifies_adaptively_is_launched_with_one_k_on_the_runner_of_its_choice() -> None:
    off = {**HEAD, "verification": "Adaptive", "tuning": {"mode": "Off"}}
    result = a_plan(a_model(method="eagle3", speculation=off))
    config = flag(result, "--speculative-config")
    assert config is not None
    assert "num_speculative_tokens_per_batch_size" not in config
    assert RUNNER not in environment(result)


def test_v1_does_not_verify_adaptively() -> None:
    off = {**HEAD, "verification": "Adaptive", "tuning": {"mode": "Off"}}
    model = a_model(method="eagle3", speculation=off, engine={"modelRunner": "V1"})
    ((reason, message),) = a_plan(model).problems
    assert reason is DegradedReason.UNSUPPORTED
    assert "verification is Adaptive, which V1 does not have; set spec.engine.modelRunner: Auto" in message
