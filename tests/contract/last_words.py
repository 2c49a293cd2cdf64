"""How an engine ended, as Kubernetes keeps it, and what the operator says of it.

``python -m tests.contract.last_words`` runs every fault that ends a stand-in and writes the ends to FOLDER.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from outrider.controller.reconcile.ended_engine import CRASHES
from outrider.controller.reconcile.readiness import find_trouble
from outrider_protocol.environment import CANDIDATES_VARIABLE
from tests.contract import engine_process
from tests.contract.engine import (
    CANDIDATES,
    DRAFT_MODEL,
    KEY,
    MODELS,
    environment,
    install_plugin,
    launcher,
    server_flags,
)
from tests.contract.engine_process import PYTHON
from tests.contract.twin import install_twin, twin_launch
from tests.unit.controller.factories import a_pod, a_workload

FOLDER = Path(__file__).parents[1] / "unit" / "controller" / "last_words"
KEPT_BYTES, KEPT_LINES = 2048, 80
"""Of the log of a container that failed and left no message, with FallbackToLogsOnError."""
SECONDS = 400.0
STOCK = ("-m", "vllm.entrypoints.openai.api_server")


@dataclass(frozen=True, slots=True)
class Ended:
    """What Kubernetes knows of a container that ended."""

    exit_code: int
    message: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A launch that ends. settings: of the stand-in, beside its engine. stock: without Outrider's plugin."""

    settings: Mapping[str, object]
    stock: bool = False
    target: Path = MODELS / "target"


FAULTS: Mapping[str, Fault] = {
    "out-of-memory-at-the-start": Fault({"faults": {"no_start": "out_of_memory"}}),
    "no-memory-for-the-cache": Fault({"faults": {"no_start": "no_cache"}}),
    "cache-too-small": Fault({"kv_tokens": 100}),
    "out-of-memory-in-a-step": Fault({"faults": {"out_of_memory": {"k": 5}}}),
    "crash": Fault({"faults": {"crash": {"k": 5}}}),
    "core-died": Fault({"faults": {"die": {"k": 5}}}),
    "missing-model": Fault({}, target=Path("/models/nowhere")),
    "missing-model-stock": Fault({}, stock=True, target=Path("/models/nowhere")),
    "out-of-memory-stock": Fault({"faults": {"no_start": "out_of_memory"}}, stock=True),
}


_TABLE: dict[str, Any] = {CANDIDATES_VARIABLE: ",".join(map(str, CANDIDATES))}
"""As the operator has it: the plugin attaches a table, and so the self-test begins."""


def end_of(fault: Fault, plugin: Path, twin: Path, folder: Path) -> Ended:
    """Start an engine that does not come up, or ends in its self-test."""
    settings = {"engine": "h100_8b", **fault.settings}
    launch = (
        twin_launch(plugin, twin, settings=settings, VLLM_PLUGINS="", entry=STOCK)
        if fault.stock
        else twin_launch(plugin, twin, settings=settings, **_TABLE)
    )
    termination_log, key = folder / "termination-log", folder / "key.pub"
    termination_log.write_text("")
    key.write_text(KEY.public_pem)
    files = {"OUTRIDER_TERMINATION_LOG": str(termination_log), "OUTRIDER_PUBLIC_KEY_FILE": str(key)}
    flags = server_flags(target=fault.target, speculation=DRAFT_MODEL, port=0)
    ended = engine_process.run(
        launcher([*flags, *launch.flags], entry=launch.entry),
        environment(plugin, **launch.variables, **files),
        timeout=SECONDS,
        start=engine_process.fork_server,
    )
    return kept(ended.returncode, termination_log.read_bytes(), ended.log.encode())


def kept(exit_code: int, left: bytes, log: bytes) -> Ended:
    """What was left by the container, or where that is nothing and it failed, the end of its log."""
    tail = b"\n".join(log[-KEPT_BYTES:].splitlines()[-KEPT_LINES:])
    message = left or (tail if exit_code else b"")
    return Ended(exit_code, message.decode(errors="replace").replace(str(PYTHON.parents[1]), "/venv"))


def what_outrider_says(ended: Ended) -> str:
    """Reason and message of Degraded, once the container has ended so often."""
    pod = a_pod(ended=(ended.exit_code, ended.message), restarts=CRASHES)
    trouble = find_trouble(a_workload(pod), datetime.now(UTC))
    assert trouble is not None
    return f"{trouble.reason}: {trouble.message}"


def stored(name: str) -> Ended:
    """As it was captured from a real run."""
    return Ended(**json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def main() -> None:
    """Capture all of them."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        plugin, twin, folder = (Path(scratch) / name for name in ("plugin", "twin", "run"))
        for each in (plugin, twin, folder):
            each.mkdir()
        install_plugin(plugin)
        install_twin(twin)
        for name, fault in FAULTS.items():
            ended = end_of(fault, plugin, twin, folder)
            (FOLDER / f"{name}.json").write_text(json.dumps(asdict(ended), indent=1) + "\n")
            print(f"{name}: {what_outrider_says(ended)}", flush=True)


if __name__ == "__main__":
    main()
