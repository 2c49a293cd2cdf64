"""What K=0 costs beside a drafter: ``python -m tests.bench.k0``, on a quiet machine.

Engines of the tiny models live side by side, and one of them works at a time: a stock vLLM without a
drafter, K=0 with a drafter that follows every step, and K=0 with one that is left out.
A second engine without a drafter shows by how much two processes differ that do the same.
Each pair asks all of them for the same texts, in an order that is drawn anew. Prompts are short and answers
long, so decoding is nearly all there is; no text is asked for twice. The core of each engine computes by
itself, as on one GPU.

Three figures of each run: seconds until the last answer, as clients see it; vLLM's own mean time between two
tokens of a request; and what the core had of the processors per token, without the time that others had. It
varies nearly as much as the clock. The result, with the command that made it, goes to
out/bench/k0/METHOD.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tests.bench.k0.runs import Run, measure
from tests.bench.k0.statistics import relative_cost
from tests.bench.results import head, write
from tests.contract.engine import EAGLE3, HEAVY_TARGET, Engine, Launch, install_plugin, running_engine
from tests.contract.engine_process import begin
from tests.contract.factories import a_constant, a_push

REPORTS = Path("out/bench/k0")
MAX_NUM_SEQS = 32
LONGEST_LEASE = 3600

_HEAVY = partial(Launch, target=HEAVY_TARGET, flags=("--max-num-seqs", str(MAX_NUM_SEQS)))
STOCK, AGAIN, SYNC, SKIP = "no drafter", "no drafter, again", "K=0, Sync", "K=0, Skip"
BOTH = "no drafter, mean of both"
"""Two processes that do the same differ for as long as they live, so one of them alone is no measure."""
UNRULED = (STOCK, AGAIN)
_STOCK = _HEAVY(
    speculation=None,
    entry=("-m", "vllm.entrypoints.openai.api_server"),
    variables={"VLLM_PLUGINS": ""},
)
ARMS: Mapping[str, Mapping[str, Launch]] = {
    "draft_model": {
        STOCK: _STOCK,
        AGAIN: _STOCK,
        SYNC: _HEAVY(variables={"OUTRIDER_K0": "Sync"}),
        SKIP: _HEAVY(variables={"OUTRIDER_K0": "Skip"}),
    },
    "eagle3": {
        STOCK: _STOCK,
        AGAIN: _STOCK,
        SYNC: _HEAVY(speculation=EAGLE3, variables={"OUTRIDER_K0": "Sync"}),
        SKIP: _HEAVY(speculation=EAGLE3, variables={"OUTRIDER_K0": "Skip"}),
    },
}
"""By method."""


def hold_k0(engine: Engine, *, epoch: int) -> None:
    """Renew the lease of a table that drafts nothing."""
    table = a_push(term=1, epoch=epoch, schedule=a_constant(0), lease_seconds=LONGEST_LEASE)
    engine.put(table).raise_for_status()


def compare(
    engines: Mapping[str, Engine], *, streams: int, tokens: int, pairs: int, text: str
) -> dict[str, object]:
    """All pairs of one load, and what they say. text: what the names of the asked functions begin with."""
    runs: dict[str, list[Run]] = {name: [] for name in engines}
    for pair in range(pairs):
        for name in random.sample(sorted(engines), len(engines)):
            if name not in UNRULED:
                hold_k0(engines[name], epoch=1)
            asked = f"{text}{streams}_{pair}_"
            runs[name].append(measure(engines[name], streams=streams, tokens=tokens, name=asked))
    return {
        "streams": streams,
        "tokens_per_request": tokens,
        "arms": {name: summary(found) for name, found in runs.items()},
        "time_of_clients": costs(runs, "seconds"),
        "time_between_tokens": costs(runs, "token_milliseconds"),
        "processor_time": costs(runs, "processor_milliseconds"),
        "runs": {name: [asdict(run) for run in found] for name, found in runs.items()},
    }


def costs(runs: Mapping[str, Sequence[Run]], figure: str) -> dict[str, object]:
    """What each way to hold K=0 costs against no drafter and the other, and no drafter against its like."""
    values = {name: [float(getattr(run, figure)) for run in found] for name, found in runs.items()}
    values[BOTH] = [statistics.fmean(pair) for pair in zip(values[STOCK], values[AGAIN], strict=True)]
    return {
        f"{slower} against {faster}": relative_cost(values[slower], values[faster])
        for slower, faster in ((AGAIN, STOCK), (SYNC, BOTH), (SKIP, BOTH), (SYNC, SKIP))
        if slower in values and faster in values
    }


def summary(runs: Sequence[Run]) -> dict[str, object]:
    """Medians of one arm."""
    shares = [run.hook_share for run in runs if run.hook_share is not None]
    return {
        "tokens_per_second": round(statistics.median(run.tokens_per_second for run in runs), 2),
        "token_milliseconds": round(statistics.median(run.token_milliseconds for run in runs), 3),
        "processor_milliseconds": round(statistics.median(run.processor_milliseconds for run in runs), 3),
        "steps_skipped": sum(run.steps_skipped for run in runs),
        "hook_share_percent": round(100 * statistics.median(shares), 3) if shares else None,
    }


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.k0", description=__doc__)
    parser.add_argument("--method", choices=sorted(ARMS), default="draft_model")
    parser.add_argument("--pairs", type=int, default=12, help="per load (default: 12)")
    parser.add_argument("--streams", default="1,8,32", help=f"loads, up to {MAX_NUM_SEQS} (default: 1,8,32)")
    parser.add_argument("--tokens", type=int, default=256, help="of each answer, up to 400 (default: 256)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    """Start the engines, warm them up, compare, report."""
    given = options(arguments)
    loads = [int(streams) for streams in given.streams.split(",")]
    started, load_before = datetime.now(UTC), os.getloadavg()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        plugin = install_plugin(folder / "plugin")
        engines: dict[str, Engine] = {}
        for index, (arm, launch) in enumerate(ARMS[given.method].items()):
            own = folder / str(index)
            own.mkdir()
            engines[arm] = stack.enter_context(running_engine(plugin, own, launch, start=begin))
        found: list[dict[str, object]] = []
        for streams in loads:
            compare(engines, streams=streams, tokens=min(64, given.tokens), pairs=1, text="warm")
            found.append(
                compare(engines, streams=streams, tokens=given.tokens, pairs=given.pairs, text="load")
            )
            print(json.dumps({k: v for k, v in found[-1].items() if k != "runs"}, indent=1), flush=True)
    result = {
        **head("tests.bench.k0", arguments, started),
        "minutes": round((datetime.now(UTC) - started).total_seconds() / 60, 1),
        "load_average": {"before": load_before, "after": os.getloadavg()},
        "loads": found,
    }
    write(REPORTS / f"{given.method}.json", result)


if __name__ == "__main__":
    main(sys.argv[1:])
