"""Stand-ins for GPUs in place of the engine: which, under which name, with which K. Pure."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot
from typing import Any

from outrider.api.resource import SpeculativeModel
from outrider.cluster.resources import JsonObject
from outrider_lab.rivals.tuners import hand_table
from outrider_twin.description import DEFAULT_TEXT, load_shipped
from outrider_twin.settings import VARIABLE, Settings
from tests.bench.held_out import seed

REAL = "real"
TWIN = "twin:"
"""Before the name of a stand-in."""
TEXT_NOISE = 0.02
"""Relative standard error of 4 s of a few streams: which drafts are accepted is drawn."""
TRACES: Mapping[str, tuple[str, str]] = {
    "h100_8b": (
        "8:60:instructcoder,32:60:sharegpt,16:60:gsm8k@2000,4:60:cnn",
        "8:34:instructcoder,32:36:sharegpt,16:34:gsm8k@2000",
    ),
    "a40_7b": ("4:60,32:60,8:60,24:60", "4:34,32:36,8:34"),
    "gb10_30b_moe": ("2:60,16:60,4:60,8:60", "2:34,16:36,8:34"),
}
"""The whole trace and the quick one, by stand-in: the best K or the gain changes between its loads."""

DRAWN = "drawn"
"""In place of a trace: one that follows from the commit."""
_STREAMS: Mapping[str, tuple[int, ...]] = {
    "h100_8b": (2, 4, 8, 16, 32, 48),
    "a40_7b": (2, 4, 8, 16, 32),
    "gb10_30b_moe": (2, 4, 8, 16),
}
"""Loads that a trace may draw, by stand-in: batch sizes of its source."""
_HELD_SECONDS, _TURN_SECONDS, _TURNS = 40, 15, 4
STREAM_INTERVALS: Mapping[str, int] = {"h100_8b": 16}
"""Tokens of an answer in one message, where one message for each step would keep client and server busy:
they share this machine with the engines, and a client that is late leaves seats empty."""
SWEEP = {"name": "OUTRIDER_SWEEP_SHARE", "value": "2"}
"""The engine of a GPU starts for minutes and then measures its steps for 20 s; a stand-in, which starts in
ten seconds, gets as long."""


@dataclass(frozen=True)
class StandIn:
    """Manifest and settings of one simulated engine."""

    name: str
    manifest: JsonObject
    settings: Settings

    @property
    def texts(self) -> tuple[str, ...]:
        """Classes of text that a request can name."""
        return tuple(name for name in self.settings.description().curves() if name != DEFAULT_TEXT)

    @property
    def single_noise(self) -> float:
        """Relative standard error of what was measured once."""
        return hypot(self.settings.noise.drift, TEXT_NOISE)


def drawn_trace(twin: StandIn, commit: str) -> str:
    """Three loads that stay, then two texts by turns at one of them. Without texts, two loads take turns.

    commit: all 40 digits, from which the draws follow.
    """
    draw = random.Random(seed(commit, "closed loop", twin.name))
    loads = draw.sample(_STREAMS[twin.name], 3)
    if twin.texts:
        held = [f"{streams}:{_HELD_SECONDS}:{draw.choice(twin.texts)}" for streams in loads]
        by_turns = [f"{loads[-1]}:{_TURN_SECONDS}:{text}" for text in draw.sample(twin.texts, 2)]
    else:
        held = [f"{streams}:{_HELD_SECONDS}" for streams in loads]
        by_turns = [f"{streams}:{_TURN_SECONDS}" for streams in draw.sample(loads, 2)]
    return ",".join([*held, *(by_turns[turn % 2] for turn in range(_TURNS))])


def stand_in(example: JsonObject, name: str) -> StandIn:
    """One of the shipped engines in the example of a stand-in; noise and the like stay the example's.

    Raises:
        ValueError: no such engine, or the example's container has no settings.
    """
    engine = load_shipped(name)
    manifest: dict[str, Any] = copy.deepcopy(dict(example))
    environment = _environment(manifest)
    environment.append(dict(SWEEP))
    variable = next(one for one in environment if one["name"] == VARIABLE)
    told = json.loads(variable["value"]) | {"engine": name}
    if engine.throughput is not None:
        # Its throughputs contain the overhead, and nothing about a K that was not measured.
        told.pop("idle_tax", None)
        _allow_only(manifest, engine.throughput.num_speculative_tokens)
    variable["value"] = json.dumps(told)
    if name in STREAM_INTERVALS:
        manifest["spec"]["engine"]["args"]["stream-interval"] = STREAM_INTERVALS[name]
    manifest["spec"]["model"]["servedName"] = f"simulated-{name.replace('_', '-')}"
    return StandIn(name, manifest, Settings.model_validate(told))


def _environment(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Environment of the container that names the simulated engine."""
    containers = manifest["spec"].get("podTemplate", {}).get("spec", {}).get("containers", ())
    for container in containers:
        found: list[dict[str, Any]] = container.get("env", [])
        if any(variable["name"] == VARIABLE for variable in found):
            return found
    raise ValueError(f"the example sets no {VARIABLE}")


def _allow_only(manifest: Mapping[str, Any], candidates: tuple[int, ...]) -> None:
    speculation = manifest["spec"]["speculation"]
    speculation["numSpeculativeTokens"] = max(candidates)
    speculation["candidates"] = list(candidates)
    speculation["schedule"] = hand_table(candidates).to_wire()
    SpeculativeModel.model_validate(manifest)
