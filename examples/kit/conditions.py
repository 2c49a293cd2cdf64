"""What figures were measured on: cluster, engine, machine."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

from examples.kit.cluster import Cluster
from examples.kit.records import Record
from outrider.api.spec import Spec


class Surroundings(Record):
    """The same for every kind of run. node_cores, node_memory: of the first node."""

    command: str
    cluster: str
    kubernetes_version: str
    engine_image: str
    engine_version: str
    outrider_version: str
    node_cores: int
    node_memory: str
    client_machine: str


async def surroundings(cluster: Cluster, spec: Spec, *, module: str) -> Surroundings:
    """What a run of ``python -m <module>`` finds around it."""
    server, nodes = await cluster.get_raw("/version"), await cluster.get_raw("/api/v1/nodes")
    capacity = nodes["items"][0]["status"]["capacity"]
    return Surroundings(
        command=shlex.join(["python", "-m", module, *sys.argv[1:]]),
        cluster=f"{cluster.place.context or 'current context'}, {len(nodes['items'])} node(s)",
        kubernetes_version=server["gitVersion"],
        engine_image=spec.engine.image or "the operator's default",
        engine_version=spec.engine.version,
        outrider_version=version("outrider"),
        node_cores=int(capacity["cpu"]),
        node_memory=capacity["memory"],
        client_machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {_processor()}",
    )


def _processor() -> str:
    """As the kernel of the client's machine calls it."""
    found = Path("/proc/cpuinfo")
    lines = found.read_text(encoding="utf-8").splitlines() if found.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown processor")
