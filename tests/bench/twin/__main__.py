"""``python -m tests.bench.twin``: measure the CPU engine, replay its table on the stand-in, compare.

Writes out/bench/twin/result.json. Ends with 1 when a cell is off by more than 3 %, with 2 when the
stand-in was late by more than 1 %, so that nothing can be said.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Annotated

import typer

from examples.kit.lateness import Lateness, late
from outrider_twin.batch import TEXT
from tests.bench.results import head, write
from tests.bench.twin.cells import Cell, Pair, description, text_of, verdict
from tests.contract.engine import (
    HEAVY_TARGET,
    Engine,
    Launch,
    completion_body,
    install_plugin,
    running_engine,
)
from tests.contract.engine_process import begin
from tests.contract.factories import a_constant, a_push
from tests.contract.measuring import scrape
from tests.contract.twin import install_twin, pace, twin_launch

STREAMS = (1, 4, 16)
CANDIDATES = (0, 2, 5)
TOKENS = 300
WARM_UP_SECONDS = 3.0
KV_TOKENS = 20_000
SYNCHRONOUS = ("--no-async-scheduling",)
"""As vLLM schedules on CPUs; ahead of the results it computes about one step more per request."""
LARGEST_ERROR = 0.03
OUTPUT = Path("out/bench/twin/result.json")
EXIT = {"passed": 0, "failed": 1, "void": 2}

_epochs = count(1)


def main(
    seconds: Annotated[float, typer.Option(help="per cell, on each engine")] = 20.0,
    output: Annotated[Path, typer.Option(help="where the result goes")] = OUTPUT,
) -> None:
    """Compare the stand-in with the engine that its table was measured on."""
    began = datetime.now(UTC)
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / name for name in ("plugin", "twin", "engine", "stand-in")]
        for folder in folders:
            folder.mkdir()
        plugin, twin = install_plugin(folders[0]), install_twin(folders[1])
        real = Launch(candidates=CANDIDATES, target=HEAVY_TARGET)
        with running_engine(plugin, folders[2], real, start=begin) as engine:
            cells = [measure(engine, b, k, seconds)[0] for b in STREAMS for k in CANDIDATES]
        table = description(cells, kv_tokens=KV_TOKENS)
        launch = twin_launch(
            plugin, twin, settings={"engine": table}, candidates=CANDIDATES, flags=SYNCHRONOUS
        )
        with running_engine(plugin, folders[3], launch, start=begin) as engine:
            pairs = [Pair(cell, *measure(engine, cell.streams, cell.k, seconds)) for cell in cells]
    found = verdict(pairs, largest_error=LARGEST_ERROR)
    show(pairs, found)
    told = {
        "verdict": found,
        "cells": [{**asdict(pair), "error": pair.error} for pair in pairs],
        "engine": table,
    }
    write(output, head("tests.bench.twin", sys.argv[1:], began) | told)
    raise typer.Exit(EXIT[found])


def measure(engine: Engine, streams: int, k: int, seconds: float) -> tuple[Cell, float]:
    """A closed load of so many streams for so long; and how late a stand-in was, 0 for an engine."""
    engine.put(a_push(term=1, epoch=next(_epochs), schedule=a_constant(k))).raise_for_status()
    stop, ended = threading.Event(), threading.Event()
    asked = {"vllm_xargs": {TEXT: text_of(streams)}}

    def client(stream: int) -> None:
        for index in count():
            if stop.is_set():
                return
            body = completion_body(TOKENS, f"def f{stream}_{index}(x):\n    ")
            with engine.client() as http:
                http.post("/v1/completions", json=body | asked).raise_for_status()

    with ThreadPoolExecutor(streams) as pool:
        clients = [pool.submit(client, stream) for stream in range(streams)]
        try:
            ended.wait(WARM_UP_SECONDS)
            before, began = scrape(engine), _lateness(engine)
            ended.wait(seconds)
            counted, share = scrape(engine) - before, _late(engine, began)
        finally:
            stop.set()
    for each in clients:
        each.result()
    drafts = counted.total("outrider:draft_tokens_total", position="0")
    accepted = counted.total("outrider:accepted_tokens_total")
    return (
        Cell(
            streams,
            k,
            tokens=counted.total("outrider:emitted_tokens_total"),
            steps=counted.total("outrider:steps_total"),
            engine_seconds=counted.total("outrider:step_seconds_total"),
            accepted=accepted / drafts if drafts else 0.0,
        ),
        share,
    )


def _lateness(engine: Engine) -> Lateness | None:
    if not engine.first_state["simulated"]:
        return None
    told = pace(engine)
    return Lateness(told.scheduled, told.lost)


def _late(engine: Engine, began: Lateness | None) -> float:
    now = _lateness(engine)
    return 0.0 if began is None or now is None else late(began, now)


def show(pairs: Sequence[Pair], found: str) -> None:
    """One line per cell."""
    print(f"{'streams':>8}{'K':>4}{'engine tok/s':>14}{'twin tok/s':>12}{'error':>8}{'late':>9}")
    for pair in pairs:
        rates = (pair.engine.tokens_per_second, pair.twin.tokens_per_second)
        print(
            f"{pair.engine.streams:>8}{pair.engine.k:>4}{rates[0]:>14.1f}{rates[1]:>12.1f}"
            f"{pair.error:>8.1%}{pair.late:>9.3%}"
        )
    print(found)


if __name__ == "__main__":
    typer.run(main)
