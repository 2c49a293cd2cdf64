"""The operator's processes of a run: what they used, and what their clocks saw."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.scale.place import TICK_SECONDS, Place, cpu_of, python_process
from tests.lifecycle.operators import QUICK
from tests.lifecycle.stored_models import eventually
from tests.ports import free_port

_SETTINGS = {
    **QUICK,
    "OUTRIDER_TUNING_INTERVAL_SECONDS": str(TICK_SECONDS),
    "OUTRIDER_LEASE_NAMESPACE": "outrider-system",
    "POD_NAMESPACE": "outrider-system",
}


@dataclass(frozen=True)
class Usage:
    """What a process has used so far. cpu: seconds. peak: MiB."""

    cpu: float
    peak: float


def usage_of(pid: int) -> Usage:
    """CPU time and peak of memory of a process, by the kernel."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return Usage(cpu_of(pid), int(peak) / 1024)


class Operator:
    """One process of the operator."""

    def __init__(self, process: subprocess.Popen[bytes], clocks: Path) -> None:
        self._process = process
        self._clocks = clocks

    def usage(self) -> Usage:
        """Of its process."""
        return usage_of(self._process.pid)

    def seen(self, since: float, until: float) -> list[dict[str, Any]]:
        """The lines of its clocks between two moments."""
        lines = [json.loads(line) for line in self._clocks.read_text().splitlines() if line.endswith("}")]
        return [line for line in lines if since <= line["at"] < until]

    def timed(self, kind: str, since: float, until: float) -> list[list[Any]]:
        """What its clocks recorded of one kind between two moments; the seconds come first."""
        return [each for line in self.seen(since, until) for each in line.get(kind, ())]

    def signal(self, number: signal.Signals) -> None:
        """SIGTERM ends it as Kubernetes would, SIGKILL as the kernel does."""
        self._process.send_signal(number)

    def wait(self) -> None:
        """Until it ended."""
        self._process.wait(60)


def end(operators: Sequence[Operator], how: signal.Signals = signal.SIGTERM) -> None:
    """End all at the same time."""
    for each in operators:
        each.signal(how)
    for each in operators:
        each.wait()


@contextmanager
def some_operators(place: Place, name: str, shards: int = 1) -> Iterator[Sequence[Operator]]:
    """In the block a process for each shard runs. name: of their logs."""
    began = time.time()
    with ExitStack() as stack:
        found = [
            stack.enter_context(_an_operator(place, f"{name}-{n}", shards)) for n in range(1, shards + 1)
        ]
        eventually("all run", lambda: all(each.seen(began, time.time()) for each in found))
        yield found


@contextmanager
def _an_operator(place: Place, name: str, shards: int) -> Iterator[Operator]:
    clocks = place.server.folder / f"{name}.jsonl"
    clocks.touch()
    words = [sys.executable, "-m", "tests.bench.scale.observed", str(clocks), "run"]
    environment = {
        **_SETTINGS,
        **place.server.environment,
        **place.settings,
        "OUTRIDER_HTTP_PORT": str(free_port()),
        "OUTRIDER_SHARDS": str(shards),
    }
    with python_process(words, place.server.folder / f"{name}.log", environment) as process:
        yield Operator(process, clocks)
