"""The end of one pod under clients that keep their connections open."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from examples.kit.cluster import address
from tests.cluster import kept_connections
from tests.cluster.engines import page, ready_pods
from tests.cluster.kubectl import kubectl, namespace, wait_for
from tests.cluster.models import served_name
from tests.cluster.sending import client_pod

STREAMS = 8
BUSY_SECONDS = 60.0


@dataclass
class Asked:
    """What clients asked, by library, and how each lost request was lost."""

    requests: Mapping[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class End:
    """What the end of a pod came to. seconds: from its deletion until nothing was left of it."""

    pod: str
    seconds: float
    asked: Asked


@contextmanager
def clients(model: str, streams: int = STREAMS) -> Iterator[Asked]:
    """So many streams while the block runs, each with an answer before it; afterwards what came of them.

    They run in the client's pod, which must be up.
    """
    script = Path(kept_connections.__file__).read_text()
    flags = (
        *("--url", address(model, namespace()), "--model", served_name(model)),
        *("--streams", str(streams)),
    )
    where = ("-i", client_pod(model), "-n", namespace())
    command = ["kubectl", "exec", *where, "--", "python3", "-c", script, *flags]
    asked = Asked()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == kept_connections.EVERY_STREAM_ANSWERED
            yield asked
        finally:
            # Nothing more on its standard input is the sign to stop.
            printed, _ = process.communicate()
    came_to = json.loads(printed)
    asked.requests, asked.failed = came_to["requests"], came_to["failed"]


def end_one(model: str) -> End:
    """Delete one of a model's pods that clients are connected to, and see what they lost."""
    with clients(model) as asked:
        pod = a_busy_pod(model)
        began = time.monotonic()
        kubectl("delete", "pod", pod, "-n", namespace(), "--timeout=120s")
        seconds = time.monotonic() - began
    return End(pod, seconds, asked)


def a_busy_pod(model: str) -> str:
    """A pod that is answering requests."""

    def busy() -> dict[str, object] | None:
        running = {pod: found.running for pod in ready_pods(model) if (found := page(pod))}
        return {"status": [pod for pod, count in running.items() if count]}

    seen = wait_for("requests run", busy, lambda seen: bool((seen or {})["status"]), seconds=BUSY_SECONDS)
    assert seen is not None
    return str(seen["status"][0])
