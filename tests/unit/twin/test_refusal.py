"""What a stand-in refuses, by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from outrider_twin.refusal import launch_obstacles, request_obstacles


def a_config(**changes: Any) -> Any:
    plain = {
        "name": "simulated-8b",
        "lora": None,
        "runner": "generate",
        "ranks": 1,
        "replicas": 1,
        "kv": None,
    }
    given = SimpleNamespace(**{**plain, **changes})
    return SimpleNamespace(
        model_config=SimpleNamespace(served_model_name=given.name, runner_type=given.runner),
        parallel_config=SimpleNamespace(world_size=given.ranks, data_parallel_size=given.replicas),
        lora_config=given.lora,
        kv_transfer_config=given.kv,
    )


def some_params(**changes: object) -> Any:
    plain = {"logprobs": None, "prompt_logprobs": None, "structured_outputs": None, "extra_args": None}
    return SimpleNamespace(**{**plain, "bad_words": [], **changes})


def test_a_plain_engine_and_a_plain_request_are_taken() -> None:
    assert launch_obstacles(a_config()) == []
    assert request_obstacles(some_params(), ["code"]) == []
    assert request_obstacles(some_params(extra_args={"twin_text": "code"}), ["code"]) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"name": "llama-8b"}, 'the served name must say "simulated", and llama-8b does not'),
        ({"lora": Ellipsis}, "LoRA"),
        ({"runner": "pooling"}, "pooling"),
        ({"ranks": 2}, "several ranks"),
        ({"replicas": 2}, "several ranks"),
        ({"kv": Ellipsis}, "transfers of the KV cache"),
    ],
    ids=str,
)
def test_an_engine_that_cannot_be_simulated_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    (obstacle,) = launch_obstacles(a_config(**change))
    assert named in obstacle


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"logprobs": 0}, "log-probabilities"),
        ({"prompt_logprobs": 1}, "log-probabilities"),
        ({"structured_outputs": Ellipsis}, "structured output"),
        ({"allowed_token_ids": [1]}, "a choice of tokens"),
        ({"logit_bias": {1: 2.0}}, "a choice of tokens"),
        ({"bad_words": ["x"]}, "a choice of tokens"),
        ({"extra_args": {"twin_text": "verse"}}, "the class of text 'verse'"),
    ],
    ids=str,
)
def test_a_request_that_cannot_be_simulated_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    (obstacle,) = request_obstacles(some_params(**change), ["code"])
    assert named in obstacle
    assert obstacle.endswith(": not simulated")
