"""Load after load on engines that live side by side, and one of them works at a time.

Engines alike differ for as long as they live, for a reason that was not found. So all are started several
times.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from tests.bench.k0.arms import ARMS, MAX_NUM_SEQS, UNRULED, hold_k0
from tests.bench.k0.processors import settled
from tests.contract.engine import Engine, Launch, install_plugin, running_engine
from tests.contract.engine_process import begin

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

REPORTS = Path("out/bench/k0")

T = TypeVar("T", bound="DataclassInstance")
"""One run."""
Result = dict[str, object]
Runs = dict[str, list[T]]
"""By arm: of one start after the other, pair by pair."""


@dataclass(frozen=True, slots=True)
class Load:
    """So many streams with one request each, pair after pair. text: begins the names of what is asked for."""

    streams: int
    tokens: int
    pairs: int
    text: str = "load"

    def asked(self, pair: int) -> str:
        """What the names begin with in one pair: no text is asked for twice."""
        return f"{self.text}{self.streams}_{pair}_"


@dataclass(frozen=True, slots=True)
class Bench(Generic[T]):
    """What is measured of the engines under a load, by arm and the beginning of the names that are asked for;
    what the runs of so many starts say; and that, with its load, for a reader."""

    measure: Callable[[Mapping[str, Engine], Load, str, str], T]
    conclude: Callable[[Runs[T], int], Result]
    text: Callable[[Result], str]


def parser(program: str, description: str | None) -> argparse.ArgumentParser:
    """The command line of a bench that compares engines."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--method", choices=sorted(ARMS), default="draft_model")
    parser.add_argument("--starts", type=int, default=4, help="of all engines (default: 4)")
    parser.add_argument("--pairs", type=int, default=4, help="per load and start (default: 4)")
    parser.add_argument("--streams", default="1,8,32", help=f"loads, up to {MAX_NUM_SEQS} (default: 1,8,32)")
    parser.add_argument("--tokens", type=int, default=256, help="of each answer, up to 400 (default: 256)")
    return parser


def in_turns(engines: Mapping[str, Engine], load: Load, measure: Callable[[str, str], T]) -> Runs[T]:
    """What each engine gave, pair by pair. Each pair asks all of them, in an order that is drawn anew.

    measure: of an arm, with the beginning of the names that it asks for.
    """
    found: dict[str, list[T]] = {name: [] for name in engines}
    for pair in range(load.pairs):
        for name in random.sample(sorted(engines), len(engines)):
            if name not in UNRULED:
                hold_k0(engines[name], epoch=1)
            found[name].append(measure(name, load.asked(pair)))
    return found


def over_loads(
    given: argparse.Namespace,
    arms: Mapping[str, Launch],
    bench: Bench[T],
    *,
    install: Callable[[Path], Path] = install_plugin,
) -> Result:
    """Compare the engines under each load, and start them anew as often as is asked.

    install: puts the plugins into a folder.
    """
    started, load_before = datetime.now(UTC), os.getloadavg()
    loads = [Load(int(streams), given.tokens, given.pairs) for streams in given.streams.split(",")]
    runs: list[Runs[T]] = [{arm: [] for arm in arms} for _ in loads]
    for start in range(given.starts):
        with started_engines(arms, install) as engines:
            for load, found in zip(loads, runs, strict=True):
                measure = partial(bench.measure, engines, load)
                in_turns(engines, replace(load, tokens=min(64, given.tokens), pairs=1, text="warm"), measure)
                for arm, values in in_turns(engines, load, measure).items():
                    found[arm] += values
                print(f"start {start + 1} of {given.starts}: {load.streams} streams", flush=True)
    results: list[Result] = []
    for load, found in zip(loads, runs, strict=True):
        about = {"streams": load.streams, "tokens_per_request": load.tokens}
        result: Result = {**about, **bench.conclude(found, given.starts)}
        print(bench.text(result), flush=True)
        results.append({**result, "runs": {arm: [asdict(run) for run in own] for arm, own in found.items()}})
    return {
        "minutes": round((datetime.now(UTC) - started).total_seconds() / 60, 1),
        "load_average": {"before": load_before, "after": os.getloadavg()},
        "loads": results,
    }


@contextmanager
def started_engines(
    arms: Mapping[str, Launch], install: Callable[[Path], Path]
) -> Iterator[Mapping[str, Engine]]:
    """One engine for each arm, and their cores on one processor."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        plugin = install(folder / "plugin")
        engines: dict[str, Engine] = {}
        for index, (arm, launch) in enumerate(arms.items()):
            own = folder / str(index)
            own.mkdir()
            engines[arm] = stack.enter_context(running_engine(plugin, own, launch, start=begin))
        stack.enter_context(settled(engines.values()))
        yield engines
