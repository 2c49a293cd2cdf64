"""What the control costs: `python -m tests.bench.engine.control`, on a quiet machine.

1. Latency of a PUT, on an idle engine and with streams running. Under load a PUT waits for the step that
   runs, so the step time is measured at the same time, as the gap between two events of a stream.
2. Cost of counting per step: blocks with counting on and off alternate in the order on off off on, under
   constant load. Each block's step time is vLLM's own mean inter-token latency. A quadruple gives one
   ratio; their spread is the spread of the result.
3. The time in the plugin's hooks per step, by the engine's own count, also while the fast loop chooses K.

The result, with the command that made it, goes to out/bench/engine-control/result.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.results import head, write
from tests.contract.engine import (
    CANDIDATES,
    HEAVY_TARGET,
    Engine,
    Launch,
    completion_body,
    install_plugin,
    running_engine,
)
from tests.contract.engine_process import begin
from tests.contract.factories import a_constant, a_push
from tests.contract.fast_loops import STEP_SECONDS, a_cost_model, push_cost_model
from tests.contract.measuring import Samples, scrape

REPORT = Path("out/bench/engine-control/result.json")
TOKENS = 256
SCHEDULE, MEASURING = "/outrider/v1/schedule", "/outrider/v1/measuring"
LATENCY_SUM, LATENCY_COUNT = (f"vllm:inter_token_latency_seconds_{part}" for part in ("sum", "count"))
ON_OFF_OFF_ON = (True, False, False, True)

T_95 = {3: 3.182, 4: 2.776, 5: 2.571, 7: 2.365, 9: 2.262, 11: 2.201, 14: 2.145, 19: 2.093, 29: 2.045}
"""Quantiles of Student's t for a two-sided interval of 95 %, by degrees of freedom."""


@dataclass
class Load:
    """Closed-loop streams, and the gaps in seconds between the events of each."""

    gaps: list[float] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def stream(self, engine: Engine, name: int) -> None:
        """One request after the other until the load ends."""
        asked = 0
        while not self.stop.is_set():
            asked += 1
            body = completion_body(TOKENS, f"def f{name}_{asked}(x):\n    return ", stream=True)
            with engine.client() as client, client.stream("POST", "/v1/completions", json=body) as answer:
                answer.raise_for_status()
                self._read(answer.iter_lines())

    def _read(self, lines: Iterator[str]) -> None:
        last: float | None = None
        for line in lines:
            if line.startswith("data: "):
                now = time.perf_counter()
                if last is not None:
                    self.gaps.append(now - last)
                last = now
            if self.stop.is_set():
                return


@contextmanager
def loaded(engine: Engine, streams: int) -> Iterator[Load]:
    """So many streams for as long as the block lasts."""
    load = Load()
    with ThreadPoolExecutor(max(1, streams)) as pool:
        running = [pool.submit(load.stream, engine, name) for name in range(streams)]
        try:
            yield load
        finally:
            load.stop.set()
    for each in running:
        each.result()


def push_latencies(engine: Engine, *, term: int, pushes: int, pause: float) -> list[float]:
    """Seconds of each PUT of a new table, with a pause between two."""
    seconds: list[float] = []
    with engine.client() as client:
        for epoch in range(1, pushes + 1):
            table = a_constant(CANDIDATES[epoch % len(CANDIDATES)])
            body = a_push(term=term, epoch=epoch, schedule=table)
            began = time.perf_counter()
            answer = client.put(SCHEDULE, json=body)
            seconds.append(time.perf_counter() - began)
            answer.raise_for_status()
            time.sleep(pause)
    return seconds


def latency(engine: Engine, *, term: int, streams: int, pushes: int) -> dict[str, object]:
    """PUT latency beside the step time of the same moment, in milliseconds."""
    with loaded(engine, streams) as load:
        if streams:
            warm(lambda: len(load.gaps) > 20 * streams)
            load.gaps.clear()
        puts = push_latencies(engine, term=term, pushes=pushes, pause=0.02)
        steps = list(load.gaps)
    figures: dict[str, object] = {"streams": streams, "pushes": pushes, "put_ms": quantiles(puts)}
    if steps:
        beyond = {
            name: milliseconds(quantile(puts, share) - quantile(steps, share))
            for name, share in (("p50", 0.5), ("p99", 0.99))
        }
        figures |= {"step_ms": quantiles(steps), "put_beyond_step_ms": beyond}
    return figures


def cost(
    engine: Engine, *, term: int, k: int, streams: int, quadruples: int, seconds: float
) -> dict[str, object]:
    """By how much counting lengthens a step, in percent, with the interval of 95 %."""
    with loaded(engine, streams) as load, engine.client() as client:
        client.put(SCHEDULE, json=a_push(term=term, schedule=a_constant(k))).raise_for_status()
        warm(lambda: len(load.gaps) > 50 * streams)
        ratios: list[float] = []
        blocks: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(quadruples):
            one: dict[bool, list[float]] = {True: [], False: []}
            for enabled in ON_OFF_OFF_ON:
                client.put(MEASURING, json={"enabled": enabled}).raise_for_status()
                one[enabled].append(step_seconds(engine, seconds=seconds))
            ratios.append(sum(one[True]) / sum(one[False]) - 1)
            for enabled, found in one.items():
                blocks[enabled] += found
        client.put(MEASURING, json={"enabled": True}).raise_for_status()
    mean, error = statistics.fmean(ratios), statistics.stdev(ratios) / math.sqrt(len(ratios))
    margin = student(len(ratios) - 1) * error
    return {
        "k": k,
        "streams": streams,
        "quadruples": quadruples,
        "block_seconds": seconds,
        "step_ms_on": milliseconds(statistics.fmean(blocks[True])),
        "step_ms_off": milliseconds(statistics.fmean(blocks[False])),
        "cost_percent": round(100 * mean, 3),
        "interval_95_percent": [round(100 * (mean - margin), 3), round(100 * (mean + margin), 3)],
        "ratios_percent": [round(100 * ratio, 3) for ratio in ratios],
    }


def step_seconds(engine: Engine, *, seconds: float) -> float:
    """vLLM's mean time between two tokens of a request, over a block."""
    before = scrape(engine)
    time.sleep(seconds)
    passed: Samples = scrape(engine) - before
    return passed.total(LATENCY_SUM) / passed.total(LATENCY_COUNT)


def hook_cost(engine: Engine, *, streams: int, seconds: float) -> dict[str, object]:
    """The plugin's own account of the time in its hooks, where it keeps one."""
    with loaded(engine, streams) as load:
        warm(lambda: len(load.gaps) > 50 * streams)
        before = scrape(engine)
        time.sleep(seconds)
        passed = scrape(engine) - before
    steps, busy = passed.total("outrider:steps_total"), passed.total("outrider:step_seconds_total")
    hooks = passed.total("outrider:hook_seconds_total")
    figures = {
        "steps": steps,
        "step_ms": milliseconds(busy / steps),
        "hook_us": round(1e6 * hooks / steps, 2),
    }
    if chosen := passed.total("outrider:fast_loop_steps_total"):
        seconds_of_choice = passed.total("outrider:fast_loop_hook_seconds_total")
        figures["fast_loop_us"] = round(1e6 * seconds_of_choice / chosen, 2)
    return figures  # type: ignore[return-value]


def warm(condition: Callable[[], bool], *, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("the load does not come up")
        time.sleep(0.1)


def student(freedom: int) -> float:
    """The quantile for the nearest smaller number of degrees: the interval is never too narrow."""
    return T_95[max((known for known in T_95 if known <= freedom), default=min(T_95))]


def quantile(seconds: Sequence[float], share: float) -> float:
    """By rank: the smallest value that is not below this share of all."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: milliseconds(quantile(seconds, share)) for name, share in shares.items()}


def milliseconds(seconds: float) -> float:
    return round(1e3 * seconds, 3)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.engine.control", description=__doc__)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--pushes", type=int, default=500)
    parser.add_argument("--quadruples", type=int, default=12, help="at least 4")
    parser.add_argument("--block-seconds", type=float, default=4.0)
    parser.add_argument("--k", type=int, nargs="+", default=[0, 3], help="K during the comparison")
    options = parser.parse_args(arguments)
    result = head("tests.bench.engine.control", arguments, datetime.now(UTC))
    with tempfile.TemporaryDirectory() as folder:
        plugin, run = Path(folder) / "plugin", Path(folder) / "run"
        run.mkdir()
        heavy = Launch(target=HEAVY_TARGET)
        with running_engine(install_plugin(plugin), run, heavy, start=begin) as engine:
            result["engine"] = {
                name: engine.first_state[name]
                for name in ("engineVersion", "pluginVersion", "method", "maxNumSeqs")
            }
            result["idle"] = latency(engine, term=1, streams=0, pushes=options.pushes)
            result["loaded"] = latency(engine, term=2, streams=options.streams, pushes=options.pushes)
            result["cost"] = [
                cost(
                    engine,
                    term=3 + number,
                    k=k,
                    streams=options.streams,
                    quadruples=options.quadruples,
                    seconds=options.block_seconds,
                )
                for number, k in enumerate(options.k)
            ]
            result["hooks"] = hook_cost(engine, streams=options.streams, seconds=4 * options.block_seconds)
            model = a_cost_model(engine, CANDIDATES, per_draft=STEP_SECONDS / 20)
            push_cost_model(engine, 3 + len(options.k), 1, model)
            result["fast_loop"] = hook_cost(
                engine, streams=options.streams, seconds=4 * options.block_seconds
            )
    result["load_average_after"] = os.getloadavg()
    write(REPORT, result)
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
