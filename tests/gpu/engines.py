"""Engines of a check, started as the pod would start them, and what their start says."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.contract import helper_plugins
from tests.contract.engine import (
    KEY,
    POD_UID,
    Engine,
    end,
    free_port,
    launcher,
    on_v2,
    signing_client,
    wait_until_healthy,
)
from tests.gpu import check_plugin
from tests.gpu.launches import Arm, Models, Rendered, launch
from tests.gpu.places import Place
from tests.gpu.start_log import StartLog, read_start

READY_SECONDS = 600.0
"""With the capture of CUDA graphs, and kernels that are compiled at the first start."""


@dataclass(frozen=True, slots=True)
class Started:
    """The start of one engine. seconds: until it was healthy. state: as it answers before the first push."""

    seconds: float
    flags: tuple[str, ...]
    log: StartLog
    state: Mapping[str, object]

    def described(self) -> dict[str, object]:
        """For the result."""
        return asdict(self)


@dataclass(slots=True)
class Fleet:
    """The running engines of one method, by arm. Engines that share the GPU start one after the other."""

    place: Place
    models: Models
    plugin: Path
    """Folder with Outrider's plugin."""
    check_plugins: Path
    """Folder with those of the check and of the tests."""
    folder: Path
    running: dict[Arm, Engine] = field(default_factory=dict)
    starts: dict[Arm, Started] = field(default_factory=dict)
    _stacks: dict[Arm, ExitStack] = field(default_factory=dict)

    def start_seconds(self) -> float:
        """Expected for one more engine: the mean of those so far, or the place's estimate."""
        seconds = [each.seconds for each in self.starts.values()]
        return sum(seconds) / len(seconds) if seconds else self.place.start_seconds

    def hold(self, arms: Collection[Arm]) -> Mapping[Arm, Engine]:
        """End all other engines, and start those that do not run yet.

        Raises:
            AssertionError: one did not become healthy; the message has the end of its log.
            ValueError: the planner makes no engine of an arm; the message says why.
        """
        for arm in [arm for arm in self.running if arm not in arms]:
            self.end(arm)
        for arm in arms:
            if arm not in self.running:
                self._start(arm)
        return {arm: self.running[arm] for arm in arms}

    def end(self, arm: Arm) -> None:
        """End one engine."""
        self.running.pop(arm, None)
        self._stacks.pop(arm).close()

    def close(self) -> None:
        """End all engines."""
        for arm in list(self._stacks):
            self.end(arm)

    def _start(self, arm: Arm) -> None:
        rendered = launch(arm, self.models, self.place)
        folder = self.folder / arm.name.lower()
        stack = self._stacks[arm] = ExitStack()
        began = time.monotonic()
        engine = stack.enter_context(started(self, folder, rendered))
        seconds = round(time.monotonic() - began, 1)
        log = read_start(engine.log_file.read_text(errors="replace"))
        self.running[arm] = engine
        self.starts[arm] = Started(seconds, tuple(rendered.flags), log, engine.first_state)


@contextmanager
def started(fleet: Fleet, folder: Path, rendered: Rendered) -> Iterator[Engine]:
    """A healthy engine; ended with the block.

    Raises:
        AssertionError: it did not become healthy; the message has the end of its log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key, schedule, log = folder / "key.pub", folder / "schedule.json", folder / "engine.log"
    key.write_text(KEY.public_pem)
    schedule.write_text(json.dumps([{"numSpeculativeTokens": fleet.models.k}]))
    port = free_port()
    variables = {
        **os.environ,
        **rendered.variables,
        "OUTRIDER_POD_UID": POD_UID,
        "OUTRIDER_PUBLIC_KEY_FILE": str(key),
        "OUTRIDER_STATIC_SCHEDULE_FILE": str(schedule),
        **_check_variables(fleet, rendered),
    }
    with log.open("wb") as file:
        process = fleet.place.start(launcher(started_with(rendered, port=port)), variables, file)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_healthy(process, url, log, seconds=READY_SECONDS)
        with signing_client(url) as client:
            state = client.get("/outrider/v1/state").json()
        yield Engine(url, process, key, log, state)
    finally:
        end(process)


def _check_variables(fleet: Fleet, rendered: Rendered) -> Mapping[str, str]:
    """Which plugins an engine loads, that it accepts by chance, and how V2 runs on a CPU."""
    place, made = fleet.place, fleet.models.pair.made
    own = {"PYTHONPATH": str(fleet.plugin)}
    names = [check_plugin.NAME, *place.plugins]
    if place.interpreted and not rendered.on_v1:
        own |= on_v2(fleet.plugin)
        names += place.v2_plugins
    elif made:
        names += place.chance_plugins
    own["PYTHONPATH"] += f"{os.pathsep}{fleet.check_plugins}"
    chance = {check_plugin.CHANCE_VARIABLE: "1"} if made else {}
    return {**own, "VLLM_PLUGINS": helper_plugins.loaded(names), **chance}


def started_with(rendered: Rendered, *, port: int) -> list[str]:
    """The pod's flags, with a port of this machine."""
    kept = [word for word in rendered.flags if not word.startswith("--port=")]
    return [*kept, f"--port={port}", "--host=127.0.0.1"]


def install_check_plugins(folder: Path) -> Path:
    """Put the plugins of the check and of the tests, with their entry points, into a folder."""
    helper_plugins.install(folder)
    entries = {check_plugin.NAME: f"{check_plugin.NAME}:register"}
    helper_plugins.install_modules(folder, "gpu-check", entries, {check_plugin.NAME: check_plugin})
    return folder
