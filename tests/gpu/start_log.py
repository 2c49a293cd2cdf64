"""What an engine writes to its log while it starts, read into numbers. Pure.

The lines are those of vLLM 0.26 to 0.33: `v1/engine/core.py`, `v1/core/kv_cache_utils.py`,
`v1/worker/gpu/model_runner.py`, `v1/worker/gpu_model_runner.py`, `v1/worker/gpu_worker.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_LOADED = re.compile(rf"Model loading took {_NUMBER} GiB(?: memory)? and {_NUMBER} seconds")
_GRAPHS = re.compile(rf"Graph capturing finished in {_NUMBER} secs, took (-?[0-9.]+) GiB")
_ENGINE = re.compile(
    r"init engine \(profile, create kv cache, warmup model\) took "
    rf"{_NUMBER} s(?: \(compilation: {_NUMBER} s)?"
)
_CACHE = re.compile(r"KV cache size: ([0-9,]+) tokens")
_SCHEDULER = re.compile(r"gpu-check: scheduler (\w+)")


@dataclass(frozen=True, slots=True)
class StartLog:
    """Sizes in GiB, times in seconds; None: the engine wrote no such line.

    loaded_gib: weights of target and drafter. engine_seconds: profile, cache, warm-up and graphs, without
    compile_seconds. cache_tokens: room for tokens in the KV cache. scheduler: class of vLLM's scheduler.
    """

    loaded_gib: float | None
    load_seconds: float | None
    graph_gib: float | None
    graph_seconds: float | None
    engine_seconds: float | None
    compile_seconds: float | None
    cache_tokens: int | None
    scheduler: str | None

    @property
    def asynchronous(self) -> bool | None:
        """Whether vLLM schedules the next step before the last one has ended; None where not known."""
        return None if self.scheduler is None else self.scheduler.startswith("Async")


def read_start(log: str) -> StartLog:
    """The last line of each kind counts."""
    loaded, graphs, engine = (_last(pattern, log) for pattern in (_LOADED, _GRAPHS, _ENGINE))
    cache, scheduler = _last(_CACHE, log), _last(_SCHEDULER, log)
    compiled = float(engine[2]) if engine is not None and engine[2] else None
    return StartLog(
        loaded_gib=float(loaded[1]) if loaded else None,
        load_seconds=float(loaded[2]) if loaded else None,
        graph_gib=float(graphs[2]) if graphs else None,
        graph_seconds=float(graphs[1]) if graphs else None,
        engine_seconds=round(float(engine[1]) - (compiled or 0.0), 2) if engine else None,
        compile_seconds=compiled,
        cache_tokens=int(cache[1].replace(",", "")) if cache else None,
        scheduler=scheduler[1] if scheduler else None,
    )


def _last(pattern: re.Pattern[str], log: str) -> re.Match[str] | None:
    found = list(pattern.finditer(log))
    return found[-1] if found else None
