"""The simulated engine as an engine under test: its installation, its start and its reports."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from outrider.runtimes.vllm.runner import TablePlace
from tests.contract.engine import (
    CANDIDATES,
    DRAFT_MODEL,
    MODELS,
    PLAIN,
    PLUGIN_SOURCE,
    REQUEST_SECONDS,
    SERVED_NAME,
    Engine,
    Launch,
    install,
)

SIMULATED_NAME = "simulated-8b"
ROUTE = "/outrider/twin/v1"


def install_twin(folder: Path) -> Path:
    """Build the package and install it, with its entry points, into a folder of its own."""
    install(folder, PLUGIN_SOURCE / "testing" / "twin")
    return folder


def twin_launch(
    plugin: Path,
    twin: Path,
    *,
    settings: Mapping[str, object] | str = "h100_8b",
    speculation: Mapping[str, object] | None = DRAFT_MODEL,
    names: tuple[str, ...] = (SIMULATED_NAME, SERVED_NAME),
    flags: tuple[str, ...] = (),
    candidates: Sequence[int] = CANDIDATES,
    table: TablePlace = TablePlace.PLUGIN,
    entry: Sequence[str] = Launch().entry,
    **variables: str,
) -> Launch:
    """How a stand-in is started. It answers to the usual name of the tests as well."""
    told = settings if isinstance(settings, str) else json.dumps(settings)
    return Launch(
        speculation=speculation,
        candidates=candidates,
        table=table,
        entry=entry,
        flags=("--served-model-name", *names, *flags),
        variables={"PYTHONPATH": f"{plugin}:{twin}", "OUTRIDER_TWIN": told, **variables},
    )


def eagle3(folder: Path) -> Mapping[str, object]:
    """An EAGLE-3 drafter without weights: the tiny drafter's configuration under another architecture."""
    folder.mkdir()
    for file in (MODELS / "drafter").glob("*.json"):
        shutil.copy(file, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": config["vocab_size"]}
    (folder / "config.json").write_text(json.dumps(config))
    return {"method": "eagle3", "model": str(folder)}


@dataclass(frozen=True, slots=True)
class Pace:
    """Steps, and seconds by the table and beyond it; of an engine's life, or between two moments."""

    steps: float
    scheduled: float
    lost: float
    asynchronous: bool

    def __sub__(self, other: Pace) -> Pace:
        steps, scheduled, lost = (
            self.steps - other.steps,
            self.scheduled - other.scheduled,
            self.lost - other.lost,
        )
        return Pace(steps, scheduled, lost, self.asynchronous)

    @property
    def late(self) -> float:
        """Share of the scheduled time."""
        return self.lost / self.scheduled


def pace(engine: Engine) -> Pace:
    """The engine's counters of its lateness."""
    return _asked(engine, "GET")


def behave(engine: Engine, **changes: object) -> Pace:
    """Make the engine faster or slower, or inject a fault."""
    return _asked(engine, "PATCH", changes)


def _asked(engine: Engine, method: str, changes: Mapping[str, object] | None = None) -> Pace:
    url = f"{engine.url}{ROUTE}"
    answer = httpx.request(
        method, url, json=changes, timeout=REQUEST_SECONDS, trust_env=False, verify=PLAIN
    ).raise_for_status()
    told = answer.json()
    return Pace(told["steps"], told["scheduled"], told["lost"], told["asynchronous"])
