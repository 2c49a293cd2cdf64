"""What only a GPU can show: ``make gpu-check``, or ``python -m tests.gpu``.

Per method four engines stand side by side on one GPU, started as the operator starts them: no drafter, a
static launch, a live one, and a live one on V1 where V2 is what the operator takes. Pairs ask two of them for
the same texts, one at a time. Judged are:

- live against static, at the K of the launch: what a live table costs;
- K=0 against no drafter: what speculation costs where it does not pay;
- V2 against V1, where both follow K: the operator's choice must not be the slower one;
- the map of the sweep against live cells at the same places.

The result goes to out/gpu/result.json, with device and command. Exit codes: 0 where every check ran and is
met, 1 where one is not, 2 without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from outrider_protocol.methods import Method
from tests.bench.k0.runs import measure
from tests.bench.k0.statistics import relative_cost
from tests.bench.results import head, write
from tests.contract.engine import MODELS, PYTHON, Engine, install_plugin
from tests.gpu.cells import Load, hold, live_cell, mapped_cells
from tests.gpu.device import NoDevice, find_device
from tests.gpu.engines import gpu_engine
from tests.gpu.launches import LIVE, LIVE_V1, NONE, STATIC, Models, arms
from tests.gpu.verdicts import EXIT_NO_GPU, Check, exit_status, of_cost, of_map

REPORT = Path("out/gpu/result.json")
LIVE_LIMIT, K0_LIMIT, RUNNER_LIMIT, MAP_LIMIT = 1.0, 2.0, 1.0, 3.0
"""Percent."""
DRAFTERS: Mapping[Method, str] = {Method.EAGLE3: "eagle3", Method.DRAFT_MODEL: "drafter"}
"""The tiny drafters."""


def cost(slower: Engine, faster: Engine, load: Load, name: str) -> Mapping[str, object]:
    """Seconds of clients, in pairs of drawn order."""
    seconds: dict[str, list[float]] = {"slower": [], "faster": []}
    engines = {"slower": slower, "faster": faster}
    for pair in range(-1, load.pairs):
        for side in random.sample(sorted(engines), 2):
            asked = f"{name}{load.streams}_{pair}_"
            run = measure(engines[side], streams=load.streams, tokens=load.tokens, name=asked)
            if pair >= 0:
                seconds[side].append(run.seconds)
    return relative_cost(seconds["slower"], seconds["faster"])


def checks(engines: Mapping[str, Engine], models: Models, loads: Sequence[Load]) -> Iterator[Check]:
    """All checks of one method."""
    live = engines[LIVE]
    for load in loads:
        at = f"{models.method}, {load.streams} streams: "
        hold(live, models.k)
        figures = cost(live, engines[STATIC], load, "static")
        yield of_cost(f"{at}live against static", figures, limit_percent=LIVE_LIMIT)
        if LIVE_V1 in engines:
            hold(engines[LIVE_V1], models.k)
            figures = cost(live, engines[LIVE_V1], load, "runner")
            yield of_cost(f"{at}V2 against V1", figures, limit_percent=RUNNER_LIMIT)
        hold(live, 0)
        figures = cost(live, engines[NONE], load, "none")
        yield of_cost(f"{at}K=0 against no drafter", figures, limit_percent=K0_LIMIT)
    found = [live_cell(live, k, load) for load in loads for k in models.candidates]
    cells = [cell for cell in found if cell is not None]
    yield of_map(
        f"{models.method}: map against live cells", mapped_cells(live), cells, limit_percent=MAP_LIMIT
    )


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", default="eagle3,draft_model", help="default: eagle3,draft_model")
    parser.add_argument("--target", type=Path, default=MODELS / "target", help="default: the tiny target")
    parser.add_argument("--drafter", type=Path, help="of a single method; default: the tiny one")
    parser.add_argument("--candidates", default="0,1,2,3,5", help="with 0 (default: 0,1,2,3,5)")
    parser.add_argument("--k0", default="Auto", choices=("Auto", "Sync", "Skip"), help="default: Auto")
    parser.add_argument("--streams", default="1,8,32", help="loads (default: 1,8,32)")
    parser.add_argument("--tokens", type=int, default=256, help="of each answer (default: 256)")
    parser.add_argument("--pairs", type=int, default=12, help="per comparison (default: 12)")
    parser.add_argument("--max-num-seqs", type=int, default=64)
    parser.add_argument(
        "--memory-share", type=float, default=0.2, help="of the GPU, per engine (default: 0.2)"
    )
    return parser.parse_args(arguments)


def models_of(given: argparse.Namespace, vllm: str) -> list[Models]:
    """What is to be checked, method by method."""
    methods = [Method(name) for name in given.methods.split(",")]
    candidates = sorted(int(k) for k in given.candidates.split(","))
    return [
        Models(
            target=given.target,
            drafter=given.drafter or (MODELS / DRAFTERS[method] if method in DRAFTERS else None),
            method=method,
            candidates=candidates,
            vllm=vllm,
            k0=given.k0,
        )
        for method in methods
    ]


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    given = options(arguments)
    try:
        device = find_device(PYTHON)
    except NoDevice as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return EXIT_NO_GPU
    loads = [Load(int(streams), given.tokens, given.pairs) for streams in given.streams.split(",")]
    result = {
        **head("tests.gpu", arguments, datetime.now(UTC)),
        "device": asdict(device),
        "load_average": os.getloadavg(),
    }
    found: list[Check] = []
    try:
        result["launches"] = run(given, device.vllm, loads, found)
    finally:
        result["checks"] = [asdict(check) for check in found]
        write(REPORT, result)
    return exit_status(found)


def run(given: argparse.Namespace, vllm: str, loads: Sequence[Load], found: list[Check]) -> dict[str, object]:
    """Start the engines of each method, and add what is found; what was launched."""
    launched: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        plugin = install_plugin(Path(name) / "plugin")
        for models in models_of(given, vllm):
            launches = arms(models, max_num_seqs=given.max_num_seqs, memory_share=given.memory_share)
            with ExitStack() as stack:
                engines: dict[str, Engine] = {}
                for index, (arm, launch) in enumerate(launches.items()):
                    folder = Path(name) / f"{models.method}-{index}"
                    engine = stack.enter_context(gpu_engine(plugin, folder, launch, models.k))
                    engines[arm] = engine
                    described = {"flags": launch.flags, "state": dict(engine.first_state)}
                    launched[f"{models.method}, {arm}"] = described
                for check in checks(engines, models, loads):
                    found.append(check)
                    print(f"{check.verdict:8}  {check.name}  {json.dumps(check.figures)}", flush=True)
    return launched


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
