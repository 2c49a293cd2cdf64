"""Load after load on engines that live side by side, and one of them works at a time."""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from tests.bench.k0.arms import ARMS, MAX_NUM_SEQS, UNRULED, hold_k0
from tests.contract.engine import Engine, Launch, install_plugin, running_engine
from tests.contract.engine_process import begin

REPORTS = Path("out/bench/k0")

T = TypeVar("T")
Result = dict[str, object]


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


def parser(program: str, description: str | None) -> argparse.ArgumentParser:
    """The command line of a bench that compares engines."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--method", choices=sorted(ARMS), default="draft_model")
    parser.add_argument("--pairs", type=int, default=12, help="per load (default: 12)")
    parser.add_argument("--streams", default="1,8,32", help=f"loads, up to {MAX_NUM_SEQS} (default: 1,8,32)")
    parser.add_argument("--tokens", type=int, default=256, help="of each answer, up to 400 (default: 256)")
    return parser


def in_turns(
    engines: Mapping[str, Engine], load: Load, measure: Callable[[str, str], T]
) -> dict[str, list[T]]:
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
    compare: Callable[[Mapping[str, Engine], Load], Result],
    show: Callable[[Result], None],
    *,
    install: Callable[[Path], Path] = install_plugin,
) -> Result:
    """Start the engines, warm them up, and compare them under each load.

    install: puts the plugins into a folder.
    """
    started, load_before = datetime.now(UTC), os.getloadavg()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        plugin = install(folder / "plugin")
        engines: dict[str, Engine] = {}
        for index, (arm, launch) in enumerate(arms.items()):
            own = folder / str(index)
            own.mkdir()
            engines[arm] = stack.enter_context(running_engine(plugin, own, launch, start=begin))
        found: list[Result] = []
        for streams in map(int, given.streams.split(",")):
            load = Load(streams, given.tokens, given.pairs)
            compare(engines, replace(load, tokens=min(64, given.tokens), pairs=1, text="warm"))
            found.append(compare(engines, load))
            show(found[-1])
    return {
        "minutes": round((datetime.now(UTC) - started).total_seconds() / 60, 1),
        "load_average": {"before": load_before, "after": os.getloadavg()},
        "loads": found,
    }
