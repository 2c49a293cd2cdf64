"""Which engines can change K while they run. Data only; vLLM is not imported.

Source: vLLM 0.32.0. `vllm/v1/spec_decode/*.py` and `vllm/v1/worker/gpu_model_runner.py` for the V1
runner, `vllm/v1/worker/gpu/spec_decode/` for V2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Runner(StrEnum):
    """vLLM's model runner."""

    V1 = "V1"
    V2 = "V2"


LIVE_METHODS: dict[Runner, frozenset[str]] = {
    Runner.V1: frozenset({"draft_model", "eagle", "eagle3", "mtp", "ngram", "dflash"}),
    Runner.V2: frozenset({"eagle", "eagle3"}),
}
"""Methods whose drafter follows the K of each step."""

FIXED_K_METHODS = frozenset({"suffix", "ngram_gpu", "extract_hidden_states", "medusa"})
"""Methods that assert that K is the configured one: another K ends the engine."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What an engine was launched with. ``method`` is None without speculation."""

    engine_version: str
    method: str | None
    runner: Runner
    max_num_seqs: int
    num_speculative_tokens: int
    data_parallel_size: int


def obstacle(facts: EngineFacts, *, has_table: bool) -> str | None:
    """Why this engine cannot change K while it runs; None when it can."""
    if facts.method is None:
        return "the engine was launched without speculation"
    if facts.data_parallel_size > 1:
        return data_parallel_obstacle(facts.data_parallel_size)
    if facts.method in FIXED_K_METHODS:
        return f"method {facts.method} ends the engine when K is not the configured one"
    if facts.method not in LIVE_METHODS[facts.runner]:
        return f"method {facts.method} does not follow K on the {facts.runner} runner"
    if not has_table:
        return "the engine was launched without num_speculative_tokens_per_batch_size"
    return None


def data_parallel_obstacle(size: int) -> str:
    """Why an engine of several data-parallel ranks cannot change K."""
    return f"vLLM drops the table under data parallelism (size {size})"
