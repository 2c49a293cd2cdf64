"""Engines of a check, started as the pod would start them, and what their start says."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.contract import helper_plugins
from tests.contract.engine import (
    KEY,
    POD_UID,
    Engine,
    end,
    launcher,
    on_v2,
    signing_client,
    wait_until_healthy,
)
from tests.gpu import check_plugin
from tests.gpu.launches import Arm, Models, Rendered, launch
from tests.gpu.places import Place
from tests.gpu.start_log import StartLog, read_start
from tests.ports import free_port

READY_SECONDS = 600.0
"""With the capture of CUDA graphs, and kernels that are compiled at the first start."""


@dataclass(frozen=True, slots=True)
class Started:
    """The start of one engine. seconds: until it was healthy. alone: no other one ran or started, so the
    memory that vLLM reports is its own. state: as it answers before the first push."""

    seconds: float
    alone: bool
    flags: tuple[str, ...]
    log: StartLog
    state: Mapping[str, object]

    def described(self) -> dict[str, object]:
        """For the result."""
        return asdict(self)


@dataclass(slots=True)
class Fleet:
    """The running engines of one method, by arm. failed: why an engine did not start. started: is called
    after each start."""

    place: Place
    models: Models
    plugin: Path
    """Folder with Outrider's plugin."""
    check_plugins: Path
    """Folder with those of the check and of the tests."""
    folder: Path
    running: dict[Arm, Engine] = field(default_factory=dict)
    starts: dict[Arm, Started] = field(default_factory=dict)
    failed: dict[Arm, AssertionError | ValueError] = field(default_factory=dict)
    started: Callable[[], None] = field(default=lambda: None)
    _stacks: dict[Arm, ExitStack] = field(default_factory=dict)

    def start_seconds(self) -> float:
        """Expected for one more engine: the mean of those so far, or the place's estimate."""
        seconds = [each.seconds for each in self.starts.values()]
        return sum(seconds) / len(seconds) if seconds else self.place.start_seconds

    def hold(self, arms: Collection[Arm], later: Collection[Arm] = ()) -> Mapping[Arm, Engine]:
        """End all other engines, and start those that do not run yet; together where the place allows it.

        later: engines for later parts. One of them that does not start is reported once it is needed.

        Raises:
            AssertionError: one did not become healthy; the message has the end of its log.
            ValueError: the planner makes no engine of an arm; the message says why.
        """
        wanted = dict.fromkeys([*arms, *later])
        for arm in [arm for arm in self.running if arm not in wanted]:
            self.end(arm)
        missing = [arm for arm in wanted if arm not in self.running and arm not in self.failed]
        together = len(missing) if self.place.side_by_side else 1
        alone = len(wanted) == 1 or not self.place.side_by_side
        with ThreadPoolExecutor(max(1, together)) as pool:
            # Only this thread writes down what started, because the results are written with it.
            for start in as_completed([pool.submit(self._start, arm, alone=alone) for arm in missing]):
                self._remember(*start.result())
        for arm in arms:
            if arm in self.failed:
                raise self.failed.pop(arm)
        return {arm: self.running[arm] for arm in arms}

    def end(self, arm: Arm) -> None:
        """End one engine, if it runs."""
        self.running.pop(arm, None)
        if arm in self._stacks:
            self._stacks.pop(arm).close()

    def close(self) -> None:
        """End all engines."""
        for arm in list(self._stacks):
            self.end(arm)

    def _start(
        self, arm: Arm, *, alone: bool
    ) -> tuple[Arm, ExitStack, tuple[Engine, Started] | AssertionError | ValueError]:
        """The arm, what ends it, and the engine or why there is none."""
        folder, stack = self.folder / arm.name.lower(), ExitStack()
        began = time.monotonic()
        try:
            rendered = launch(arm, self.models, self.place)
            engine = stack.enter_context(started(self, folder, rendered))
        except (AssertionError, ValueError) as error:
            return arm, stack, error
        seconds = round(time.monotonic() - began, 1)
        log = read_start(engine.log_file.read_text(errors="replace"))
        start = Started(seconds, alone, tuple(rendered.flags), log, engine.first_state)
        return arm, stack, (engine, start)

    def _remember(
        self, arm: Arm, stack: ExitStack, found: tuple[Engine, Started] | AssertionError | ValueError
    ) -> None:
        if isinstance(found, tuple):
            self._stacks[arm] = stack
            self.running[arm], self.starts[arm] = found
            self.started()
        else:
            self.failed[arm] = found


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
