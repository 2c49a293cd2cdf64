"""One load on one engine, and what it took."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.contract.engine import Engine
from tests.contract.measuring import run_streams, scrape, settled
from tests.contract.processes import pids, processor_seconds

CORE = "VLLM::EngineCore"
LATENCY_SUM, LATENCY_COUNT = (f"vllm:inter_token_latency_seconds_{part}" for part in ("sum", "count"))


@dataclass(frozen=True, slots=True)
class Run:
    """One load on one engine.

    processor_milliseconds: what the engine's cores had of the processors, per token. hook_share: of the
    engine's time, in the plugin's hooks, if it has any.
    """

    seconds: float
    tokens_per_second: float
    token_milliseconds: float
    processor_milliseconds: float
    steps_skipped: float
    hook_share: float | None


def measure(engine: Engine, *, streams: int, tokens: int, name: str) -> Run:
    """So many streams with one request each."""
    cores = pids(engine, CORE)
    before, processor = scrape(engine), sum(map(processor_seconds, cores))
    began = time.perf_counter()
    total = run_streams(engine, streams=streams, requests=1, max_tokens=tokens, name=name)
    seconds, processor = time.perf_counter() - began, sum(map(processor_seconds, cores)) - processor
    seen = settled(engine, before=before, tokens=total)
    busy = seen.total("outrider:step_seconds_total")
    return Run(
        seconds=seconds,
        tokens_per_second=total / seconds,
        token_milliseconds=1e3 * seen.total(LATENCY_SUM) / seen.total(LATENCY_COUNT),
        processor_milliseconds=1e3 * processor / total,
        steps_skipped=seen.total("outrider:drafter_steps_skipped_total"),
        hook_share=seen.total("outrider:hook_seconds_total") / busy if busy else None,
    )
