"""How far the map that an engine makes of itself lies from live steps: ``python -m tests.bench.live_map``.

One engine of the tiny models, on a quiet machine. It measures its step times before it serves; then rounds
of loads hold every K at every batch size, in a random order, and the plugin's counters give the
time of live steps at the same places. The result, with the command that made it, goes to
out/bench/live_map.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import fmean, median

from tests.bench.k0.statistics import percent
from tests.bench.results import head, write
from tests.contract.engine import (
    CANDIDATES,
    DRAFT_MODEL,
    EAGLE3,
    HEAVY_TARGET,
    Launch,
    install_plugin,
    running_engine,
)
from tests.contract.engine_process import begin
from tests.gpu.cells import Load, live_cell, mapped_cells
from tests.gpu.verdicts import Cell, at

OUTPUT = Path("out/bench/live_map.json")
METHODS: Mapping[str, Mapping[str, object]] = {
    "draft_model": DRAFT_MODEL,
    "eagle3": EAGLE3,
}
MAX_NUM_SEQS = 32
LONG_SWEEP = {"OUTRIDER_SWEEP": "1", "OUTRIDER_SWEEP_SHARE": "10", "OUTRIDER_SWEEP_SECONDS": "60"}
"""Seconds for the profile. A tenth of such an engine's start, four seconds, would be too short to judge."""
RESAMPLES = 2000

Place = tuple[int, int]
"""Streams, and K."""


def errors(mapped: Sequence[Cell], live: Mapping[Place, Sequence[Cell]]) -> dict[Place, float]:
    """By how much the map says more than live steps took, relative, by the median of rounds."""
    ratios = {
        place: [expected / cell.seconds - 1 for cell in cells if (expected := at(mapped, cell)) is not None]
        for place, cells in live.items()
    }
    return {place: median(found) for place, found in ratios.items() if found}


def mean_error(found: Mapping[Place, float]) -> float:
    """Without signs."""
    return fmean(abs(error) for error in found.values())


def interval(mapped: Sequence[Cell], live: Mapping[Place, Sequence[Cell]]) -> tuple[float, float]:
    """Of 95 %, by rounds that are drawn anew at every place."""
    draws = random.Random(0)
    drawn = sorted(
        mean_error(
            errors(mapped, {place: draws.choices(cells, k=len(cells)) for place, cells in live.items()})
        )
        for _ in range(RESAMPLES)
    )
    return drawn[int(0.025 * RESAMPLES)], drawn[int(0.975 * RESAMPLES)]


def result(mapped: Sequence[Cell], live: Mapping[Place, Sequence[Cell]]) -> dict[str, object]:
    """In percent. scale: what all places have in common, on which no choice of K depends. scatter: of live
    steps from round to round, about their median."""
    found = errors(mapped, live)
    scale = median(found.values())
    beyond = {place: (1 + error) / (1 + scale) - 1 for place, error in found.items()}
    low, high = interval(mapped, live)
    scatter = fmean(
        abs(cell.seconds / median(one.seconds for one in cells) - 1)
        for cells in live.values()
        for cell in cells
    )
    return {
        "places": len(found),
        "mean_error_percent": percent(mean_error(found)),
        "interval_95_percent": [percent(low), percent(high)],
        "scale_percent": percent(scale),
        "mean_error_beyond_scale_percent": percent(mean_error(beyond)),
        "scatter_percent": percent(scatter),
        "errors_percent": {f"{streams} streams, K {k}": percent(e) for (streams, k), e in found.items()},
    }


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.live_map", description=__doc__)
    parser.add_argument("--method", choices=sorted(METHODS), default="draft_model")
    parser.add_argument("--streams", default="1,2,4,8,16,32", help="default: 1,2,4,8,16,32")
    parser.add_argument("--rounds", type=int, default=4, help="default: 4")
    parser.add_argument("--tokens", type=int, default=96, help="of each answer (default: 96)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    """Start, measure, report."""
    given, began = options(arguments), datetime.now(UTC)
    sizes = [int(streams) for streams in given.streams.split(",")]
    launch = Launch(
        speculation=METHODS[given.method],
        target=HEAVY_TARGET,
        flags=("--max-num-seqs", str(MAX_NUM_SEQS)),
        variables=LONG_SWEEP,
    )
    live: dict[Place, list[Cell]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        plugin, folder = install_plugin(Path(name) / "plugin"), Path(name) / "engine"
        folder.mkdir()
        with running_engine(plugin, folder, launch, start=begin) as engine:
            mapped = mapped_cells(engine)
            for number in range(given.rounds):
                places = list(product(sizes, CANDIDATES))
                for streams, k in random.sample(places, len(places)):
                    cell = live_cell(engine, k, Load(streams, given.tokens, pairs=1))
                    if cell is not None:
                        live[streams, k].append(cell)
                print(f"round {number + 1} of {given.rounds}", file=sys.stderr, flush=True)
    found = {
        **head("tests.bench.live_map", arguments, began),
        "minutes": round((datetime.now(UTC) - began).total_seconds() / 60, 1),
        "load_average": os.getloadavg(),
        "map_cells": len(mapped),
        **result(mapped, live),
    }
    write(OUTPUT, found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
