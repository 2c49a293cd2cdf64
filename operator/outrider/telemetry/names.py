"""Names of the metrics that Outrider reads: those of vLLM 0.32 (vllm/v1/metrics), and the plugin's.

No other module has them, except for the two gauges in the tuner's sentences.
"""

from __future__ import annotations

from outrider.tuning.observe import window

ENGINE_STEPS = "vllm:iteration_tokens_total_count"
REQUEST_STEPS = "vllm:inter_token_latency_seconds_count"
DECODE_SECONDS = "vllm:inter_token_latency_seconds_sum"
FIRST_TOKENS = "vllm:time_to_first_token_seconds_count"
GENERATED_TOKENS = "vllm:generation_tokens_total"
PROMPT_TOKENS = "vllm:prompt_tokens_by_source_total"
DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED_TOKENS = "vllm:spec_decode_num_accepted_tokens_total"
ACCEPTED_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
REQUESTS_WAITING = window.REQUESTS_WAITING
KV_USAGE = window.KV_USAGE

REQUIRED = (ENGINE_STEPS, REQUEST_STEPS, DECODE_SECONDS, FIRST_TOKENS, GENERATED_TOKENS)
"""Counters of every vLLM; without one of them there is no window."""

SPECULATION = (DRAFTS, DRAFT_TOKENS, ACCEPTED_TOKENS)
"""Counters of engines with a drafter; absent ones count as 0."""

GAUGES = (REQUESTS_WAITING, KV_USAGE)

STOCK = (*REQUIRED, PROMPT_TOKENS, *SPECULATION, ACCEPTED_PER_POSITION, *GAUGES)
"""Everything that Outrider reads from a vLLM without the plugin."""

CELL_STEPS = "outrider:steps_total"
CELL_SECONDS = "outrider:step_seconds_total"
CELL_REQUESTS = "outrider:scheduled_requests_total"
CELL_EMITTED = "outrider:emitted_tokens_total"
CELL_PREFILL = "outrider:prefill_tokens_total"
CELL_CONTEXT = "outrider:context_tokens_total"
CELL_DRAFTED = "outrider:draft_tokens_total"
CELL_ACCEPTED = "outrider:accepted_tokens_total"

CELL_SUMS = (CELL_STEPS, CELL_SECONDS, CELL_REQUESTS, CELL_EMITTED, CELL_PREFILL, CELL_CONTEXT)
"""Counters of the plugin per batch bin and K."""

CELL_POSITIONS = (CELL_DRAFTED, CELL_ACCEPTED)
"""Counters of the plugin per batch bin, K and draft position."""

PLUGIN_EPOCH = "outrider:epoch"
"""Gauge that the plugin exports from the start; its counters appear with their first step."""

PLUGIN = (*CELL_SUMS, *CELL_POSITIONS, PLUGIN_EPOCH)

ALL = (*STOCK, *PLUGIN)

LOCAL_COMPUTE = "local_compute"
"""Value of the label `source` of `PROMPT_TOKENS` for tokens that the engine computed itself."""

MIXED = "mixed"
"""Value of the label `k` for steps that verified another K than they draft."""


def per_position(position: int) -> str:
    """Return the key of `ACCEPTED_PER_POSITION` for one draft position, counted from 0."""
    return f"{ACCEPTED_PER_POSITION}{{{position}}}"
