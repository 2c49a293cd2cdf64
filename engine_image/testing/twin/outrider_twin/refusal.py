"""Launches and requests that a simulated engine refuses, since it would have to invent the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from outrider_twin.batch import TEXT

MARK = "simulated"
"""The served name must contain it, so that clients do not mistake the answers for a model's."""


def launch_obstacles(config: Any) -> list[str]:
    """Causes why an engine cannot start with this configuration of vLLM; empty where it can."""
    name, parallel = config.model_config.served_model_name, config.parallel_config
    found = {
        f'the served name must say "{MARK}", and {name} does not': MARK not in name,
        "LoRA: not simulated": config.lora_config is not None,
        "pooling: not simulated": config.model_config.runner_type != "generate",
        "several ranks: not simulated, a table is that of a whole engine": (
            parallel.world_size > 1 or parallel.data_parallel_size > 1
        ),
        "transfers of the KV cache: not simulated": config.kv_transfer_config is not None,
    }
    return [why for why, holds in found.items() if holds]


def request_obstacles(params: Any, texts: Iterable[str]) -> list[str]:
    """Causes why a request cannot be answered; empty where it can. params: vLLM's sampling parameters."""
    extra: Mapping[str, object] = getattr(params, "extra_args", None) or {}
    named = extra.get(TEXT)
    found = {
        "log-probabilities": _asks(params, "logprobs", "prompt_logprobs"),
        "structured output": _asks(params, "structured_outputs"),
        "a choice of tokens (allowed_token_ids, logit_bias, bad_words)": _asks(
            params, "allowed_token_ids", "logit_bias", "bad_words"
        ),
        f"the class of text {named!r}": TEXT in extra and named not in set(texts),
    }
    return [f"{what}: not simulated" for what, asked in found.items() if asked]


def _asks(params: Any, *names: str) -> bool:
    values = [getattr(params, name, None) for name in names]
    return any(value is not None and value != [] and value != {} for value in values)
