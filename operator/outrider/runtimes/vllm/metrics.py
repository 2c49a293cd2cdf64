"""The metrics of vLLM 0.32 (vllm/v1/metrics), and of Outrider's plugin in it."""

from __future__ import annotations

from outrider.runtimes.metrics import (
    PLUGIN_CELLS,
    PLUGIN_EPOCH,
    PLUGIN_LIVE_TUNING,
    Counter,
    HistogramOf,
    MetricsDialect,
)

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
INTER_TOKEN_BUCKETS = "vllm:inter_token_latency_seconds_bucket"
FIRST_TOKEN_BUCKETS = "vllm:time_to_first_token_seconds_bucket"
REQUESTS_WAITING = "vllm:num_requests_waiting"
KV_USAGE = "vllm:kv_cache_usage_perc"

LOCAL_COMPUTE = "local_compute"
"""Value of the label `source` of `PROMPT_TOKENS` for tokens that the engine computed itself."""

DIALECT = MetricsDialect(
    counters={
        Counter.ENGINE_STEPS: ENGINE_STEPS,
        Counter.REQUEST_STEPS: REQUEST_STEPS,
        Counter.DECODE_SECONDS: DECODE_SECONDS,
        Counter.FIRST_TOKENS: FIRST_TOKENS,
        Counter.GENERATED_TOKENS: GENERATED_TOKENS,
        Counter.PROMPT_TOKENS: PROMPT_TOKENS,
        Counter.DRAFTS: DRAFTS,
        Counter.DRAFT_TOKENS: DRAFT_TOKENS,
        Counter.ACCEPTED_TOKENS: ACCEPTED_TOKENS,
    },
    per_position=ACCEPTED_PER_POSITION,
    waiting=REQUESTS_WAITING,
    kv_usage=KV_USAGE,
    histograms={
        HistogramOf.INTER_TOKEN: INTER_TOKEN_BUCKETS,
        HistogramOf.FIRST_TOKEN: FIRST_TOKEN_BUCKETS,
    },
    cells=PLUGIN_CELLS,
    plugin=PLUGIN_EPOCH,
    live_tuning=PLUGIN_LIVE_TUNING,
    engine_labels=("engine", "model_name"),
    only={"source": LOCAL_COMPUTE},
)
