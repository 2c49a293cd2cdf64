"""One engine on the GPU, started as the pod would start it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.contract.engine import (
    KEY,
    POD_UID,
    Engine,
    end,
    free_port,
    launcher,
    signing_client,
    wait_until_healthy,
)
from tests.contract.engine_process import begin
from tests.gpu.launches import Rendered

READY_SECONDS = 1200
"""With the capture of CUDA graphs, and kernels that are compiled at the first start."""


@contextmanager
def gpu_engine(plugin: Path, folder: Path, rendered: Rendered, k: int) -> Iterator[Engine]:
    """A healthy engine; ended with the block.

    Raises:
        AssertionError: it did not become healthy; the message has the end of its log.
    """
    folder.mkdir(parents=True)
    key, schedule, log = folder / "key.pub", folder / "schedule.json", folder / "engine.log"
    key.write_text(KEY.public_pem)
    schedule.write_text(json.dumps([{"numSpeculativeTokens": k}]))
    port = free_port()
    with log.open("wb") as file:
        variables = {**os.environ, **rendered.variables, **own_variables(plugin, key, schedule)}
        process = begin(launcher(started_with(rendered, port=port)), variables, file)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_healthy(process, url, log, seconds=READY_SECONDS)
        with signing_client(url) as client:
            state = client.get("/outrider/v1/state").json()
        yield Engine(url, process, key, log, state)
    finally:
        end(process)


def started_with(rendered: Rendered, *, port: int) -> list[str]:
    """The pod's flags, with a port of this machine."""
    kept = [word for word in rendered.flags if not word.startswith("--port=")]
    return [*kept, f"--port={port}", "--host=127.0.0.1"]


def own_variables(plugin: Path, key: Path, schedule: Path) -> Mapping[str, str]:
    """What in a pod comes from its mounts."""
    return {
        "PYTHONPATH": str(plugin),
        "OUTRIDER_POD_UID": POD_UID,
        "OUTRIDER_PUBLIC_KEY_FILE": str(key),
        "OUTRIDER_STATIC_SCHEDULE_FILE": str(schedule),
    }
