"""The metrics of SGLang 0.5.20 to 0.5.23 (``observability/metrics_collector.py``), as common counters.

SGLang counts neither request-steps nor drafts while requests run, and nothing by position. With Outrider's
plugin all of it comes from the plugin's cells. Without it, the mean accepted length of the last report gives
an estimate. Each report holds until the next scrape, so a change between two reports is seen late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Any

from outrider.runtimes.metrics import (
    PLUGIN_CELLS,
    PLUGIN_EPOCH,
    PLUGIN_LIVE_TUNING,
    CellCounter,
    CellSeries,
    Counter,
    HistogramOf,
    MetricsDialect,
    Samples,
)

TOKENS = "sglang:inter_token_latency_seconds_count"
"""Tokens behind the first one of each request, counted as they come."""
DECODE_SECONDS = "sglang:inter_token_latency_seconds_sum"
FIRST_TOKENS = "sglang:time_to_first_token_seconds_count"
PASSES = "sglang:cuda_graph_passes_total"
"""Passes of the target over prompts and over batches that decode, with CUDA graphs and without."""
ACCEPT_LENGTH = "sglang:spec_accept_length"
"""Tokens of a request-step, with the one that the target adds; 0 without speculation."""
DRAFT_TOKENS = "sglang:spec_num_draft_tokens"
"""Verified tokens of a request-step, with the one that the target adds; 0 without speculation."""

_CELLS: Mapping[Counter, tuple[CellCounter, ...]] = {
    Counter.ENGINE_STEPS: (CellCounter.STEPS,),
    Counter.REQUEST_STEPS: (CellCounter.REQUESTS,),
    Counter.GENERATED_TOKENS: (CellCounter.EMITTED,),
    Counter.PROMPT_TOKENS: (CellCounter.PREFILL,),
    Counter.DRAFT_TOKENS: (CellCounter.VERIFIED,),
    Counter.ACCEPTED_TOKENS: (CellCounter.ACCEPTED,),
}


def reckon(series: Mapping[Any, Samples]) -> Mapping[Counter, Samples]:
    """The plugin's sums where it counted, else the sums of SGLang's own counters and gauges."""
    if any(isinstance(key, CellSeries) for key in series):
        return _of_plugin(series)
    return _of_gauges(series)


def _of_plugin(series: Mapping[Any, Samples]) -> Mapping[Counter, Samples]:
    """Sums over batch bins, K and positions. A counter is absent until its first step, which means 0."""
    cells = {key: dict(samples) for key, samples in series.items() if isinstance(key, CellSeries)}
    times = sorted({at for samples in cells.values() for at in samples})
    names = {counter: {PLUGIN_CELLS[cell] for cell in given} for counter, given in _CELLS.items()}
    first = {key: by_time for key, by_time in cells.items() if key.position == 0}
    drafts = [by_time for key, by_time in first.items() if key.name == PLUGIN_CELLS[CellCounter.VERIFIED]]
    return {
        **{
            counter: tuple(_summed([by_time for key, by_time in cells.items() if key.name in wanted], times))
            for counter, wanted in names.items()
        },
        Counter.DRAFTS: tuple(_summed(drafts, times)),
    }


def _summed(counters: Collection[Mapping[float, float]], times: list[float]) -> Iterator[tuple[float, float]]:
    last = [0.0] * len(counters)
    for at in times:
        last = [counter.get(at, before) for counter, before in zip(counters, last, strict=True)]
        yield at, sum(last)


def _of_gauges(series: Mapping[Any, Samples]) -> Mapping[Counter, Samples]:
    needed = [dict(series.get(name, ())) for name in (TOKENS, FIRST_TOKENS, ACCEPT_LENGTH, DRAFT_TOKENS)]
    times = sorted(set(needed[0]).intersection(*needed[1:]))
    sums = dict.fromkeys((Counter.REQUEST_STEPS, Counter.DRAFTS, Counter.DRAFT_TOKENS), 0.0)
    found: dict[Counter, list[tuple[float, float]]] = {
        Counter.GENERATED_TOKENS: [(at, needed[0][at] + needed[1][at]) for at in times],
        **{counter: [(at, 0.0) for at in times[:1]] for counter in sums},
        Counter.ACCEPTED_TOKENS: [(at, 0.0) for at in times[:1]],
    }
    tokens_so_far = 0.0
    for before, at in pairwise(times):
        tokens = max(0.0, needed[0][at] - needed[0][before])
        length, width = (gauge[at] for gauge in needed[2:])
        steps = tokens / max(1.0, length)
        tokens_so_far += tokens
        sums[Counter.REQUEST_STEPS] += steps
        if length > 0:
            sums[Counter.DRAFTS] += steps
            sums[Counter.DRAFT_TOKENS] += steps * max(length - 1, width - 1, 0.0)
        for counter, total in sums.items():
            found[counter].append((at, total))
        found[Counter.ACCEPTED_TOKENS].append((at, tokens_so_far - sums[Counter.REQUEST_STEPS]))
    return found


DIALECT = MetricsDialect(
    counters={
        Counter.ENGINE_STEPS: PASSES,
        Counter.DECODE_SECONDS: DECODE_SECONDS,
        Counter.FIRST_TOKENS: FIRST_TOKENS,
    },
    waiting="sglang:num_queue_reqs",
    kv_usage="sglang:token_usage",
    gauges=(TOKENS, ACCEPT_LENGTH, DRAFT_TOKENS),
    means=(ACCEPT_LENGTH, DRAFT_TOKENS),
    reckon=reckon,
    histograms={
        HistogramOf.INTER_TOKEN: "sglang:inter_token_latency_seconds_bucket",
        HistogramOf.FIRST_TOKEN: "sglang:time_to_first_token_seconds_bucket",
    },
    cells=PLUGIN_CELLS,
    plugin=PLUGIN_EPOCH,
    live_tuning=PLUGIN_LIVE_TUNING,
    # Of one pod, and of one counter by kinds of passes and requests, which are added, too.
    engine_labels=("dp_rank", "tp_rank", "pp_rank", "moe_ep_rank", "engine_type", "mode", "is_streaming"),
)
