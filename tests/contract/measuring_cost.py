"""What the counting of steps costs, by an interleaved comparison on one engine under constant load.

``python -m tests.contract.measuring_cost [pairs]`` writes out/contract/measuring-cost.json.

Slices with and without the counting alternate, in random order within each pair. The figure of a slice is
vLLM's own batch-weighted step time. Reported is the median over pairs of with / without - 1, with a
bootstrap interval, and beside it what the hooks say of themselves.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.contract.engine import HEAVY_TARGET, Engine, Launch, install_plugin, running_engine
from tests.contract.engine_process import begin
from tests.contract.factories import a_constant, a_push
from tests.contract.measuring import Samples, scrape

STREAMS = 8
K = 2
SLICE_SECONDS = 1.0
RESAMPLES = 4000
REPORT = Path("out/contract/measuring-cost.json")


def step_seconds(engine: Engine, *, counted: bool) -> tuple[float, Samples]:
    """vLLM's mean step time in one slice, and everything that was counted in it."""
    with engine.client() as client:
        client.put("/outrider/v1/measuring", json={"enabled": counted}).raise_for_status()
    before = scrape(engine)
    time.sleep(SLICE_SECONDS)
    seen = scrape(engine) - before
    latency = "vllm:inter_token_latency_seconds"
    return seen.total(f"{latency}_sum") / seen.total(f"{latency}_count"), seen


def compare(engine: Engine, pairs: int) -> dict[str, object]:
    """The figures of all pairs."""
    ratios: list[float] = []
    hook_seconds = busy_seconds = steps = 0.0
    for _ in range(pairs):
        found: dict[bool, float] = {}
        for counted in random.sample([True, False], 2):
            found[counted], seen = step_seconds(engine, counted=counted)
            if counted:
                hook_seconds += seen.total("outrider:hook_seconds_total")
                busy_seconds += seen.total("outrider:step_seconds_total")
                steps += seen.total("outrider:steps_total")
        ratios.append(found[True] / found[False] - 1)
    medians = sorted(statistics.median(random.choices(ratios, k=pairs)) for _ in range(RESAMPLES))
    return {
        "streams": STREAMS,
        "pairs": pairs,
        "relative_cost_median": statistics.median(ratios),
        "interval_95": [medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]],
        "spread_of_pairs": statistics.stdev(ratios),
        "hook_share_of_engine_time": hook_seconds / busy_seconds,
        "hook_microseconds_per_step": 1e6 * hook_seconds / steps,
        "step_milliseconds": 1e3 * busy_seconds / steps,
    }


def main(pairs: int) -> None:
    """Start an engine, load it, compare, report."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plugin = install_plugin(folder / "plugin")
        heavy = Launch(target=HEAVY_TARGET)
        with running_engine(plugin, folder, heavy, start=begin) as engine:
            push = a_push(term=1, schedule=a_constant(K), lease_seconds=3600)
            engine.put(push).raise_for_status()
            done = threading.Event()

            def stream(index: int) -> None:
                while not done.is_set():
                    engine.complete(max_tokens=400, prompt=f"def f{index}(argv):\n    return ")

            threads = [threading.Thread(target=stream, args=(index,)) for index in range(STREAMS)]
            for thread in threads:
                thread.start()
            try:
                step_seconds(engine, counted=True)
                figures = compare(engine, pairs)
            finally:
                done.set()
                for thread in threads:
                    thread.join()
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 90)
