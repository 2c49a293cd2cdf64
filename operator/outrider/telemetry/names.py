"""vLLM's metric names, read in vLLM 0.32 (vllm/v1/metrics). The only place that knows them."""

from __future__ import annotations

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
REQUESTS_WAITING = "vllm:num_requests_waiting"
KV_USAGE = "vllm:kv_cache_usage_perc"

REQUIRED = (ENGINE_STEPS, REQUEST_STEPS, DECODE_SECONDS, FIRST_TOKENS, GENERATED_TOKENS)
"""Counters that every vLLM has; without one of them there is no window."""

SPECULATION = (DRAFTS, DRAFT_TOKENS, ACCEPTED_TOKENS)
"""Counters that only an engine with a drafter has; absent they count as 0."""

GAUGES = (REQUESTS_WAITING, KV_USAGE)

ALL = (*REQUIRED, PROMPT_TOKENS, *SPECULATION, ACCEPTED_PER_POSITION, *GAUGES)

LOCAL_COMPUTE = "local_compute"
"""Value of the label `source` of `PROMPT_TOKENS` for tokens that the engine computed itself."""


def per_position(position: int) -> str:
    """Key of `ACCEPTED_PER_POSITION` for one draft position, counted from 0."""
    return f"{ACCEPTED_PER_POSITION}{{{position}}}"
