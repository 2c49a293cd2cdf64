"""One engine on the GPU, started as the pod would start it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.contract.engine import KEY, POD_UID, PYTHON, Engine, end, launcher, signing_client
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
    port = _free_port()
    with log.open("wb") as file:
        process = subprocess.Popen(
            launcher(started_with(rendered, port=port)),
            env={
                **os.environ,
                **rendered.variables,
                **own_variables(plugin, key, schedule),
            },
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(process, url, log)
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


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/health", timeout=5, trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(1)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
    raise AssertionError(f"{PYTHON} made no healthy engine within {READY_SECONDS} s:\n{tail}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
