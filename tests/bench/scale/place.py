"""Everything that a run needs beside the operator, and what the API server and the engines saw of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import yaml

from outrider.controller.settings import MetricsSourceKind as Source
from tests.bench.scale.slow import SECONDS, Slow
from tests.faults.faults import Effect, Fault
from tests.faults.gate import Gate
from tests.faults.loops import a_loop
from tests.faults.prometheus import a_prometheus
from tests.faults.proxy import a_proxy
from tests.lifecycle.api_server import ApiServer, an_api_server, running
from tests.lifecycle.releases import CRD, ROOT
from tests.lifecycle.stored_models import eventually
from tests.ports import free_port

NAMESPACES = tuple(f"team-{number}" for number in range(10))
REPLICAS = 3
_MODELS = "/apis/outrider.dev/v1alpha1"
_CONTROLLERS = ("deployment-controller", "replicaset-controller", "disruption-controller")
_WRITES = ("create", "update", "patch", "delete")
_READS = ("get", "list")
_MODEL = re.compile(r"^m-\d{4}")
TICK_SECONDS = 10
_COMMAND_CHARACTERS = 15
"""Of a program's name in the kernel's table of processes."""
_AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {
            "level": "Request",
            "verbs": ["patch"],
            "resources": [{"group": "outrider.dev", "resources": ["speculativemodels/status"]}],
        },
        {"level": "Metadata"},
    ],
}


def a_model(number: int, *, port: int = 8000) -> dict[str, Any]:
    """An 8B model with an EAGLE-3 drafter, as in the examples. port: of its engines."""
    return {
        "apiVersion": "outrider.dev/v1alpha1",
        "kind": "SpeculativeModel",
        "metadata": {"name": f"m-{number:04d}", "namespace": NAMESPACES[number % len(NAMESPACES)]},
        "spec": {
            "model": {"uri": "hf://Qwen/Qwen3-8B", "servedName": "qwen3-8b", "maxLength": 8192},
            "speculation": {
                "method": "eagle3",
                "drafter": {"uri": "hf://RedHatAI/Qwen3-8B-speculator.eagle3"},
                "numSpeculativeTokens": 5,
                "candidates": [0, 1, 2, 3, 5],
                "schedule": [
                    {"maxBatchSize": 8, "numSpeculativeTokens": 3},
                    {"maxBatchSize": 32, "numSpeculativeTokens": 1},
                    {"numSpeculativeTokens": 0},
                ],
                "tuning": {"mode": "Auto"},
            },
            "engine": {"version": "0.32.0", "image": "engine:x", "port": port, "args": {"max-num-seqs": 128}},
            "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "64Gi"}},
            "replicas": REPLICAS,
        },
    }


class Place:
    """An API server with the controllers of Deployments, a played node, and a client of both.

    node: port of its questions, and the process.
    """

    def __init__(
        self,
        server: ApiServer,
        node: tuple[int, int],
        engine_port: int,
        settings: Mapping[str, str],
        gate: Gate | None = None,
    ) -> None:
        node_port, self._node_pid = node
        self.server = server
        self._engine_port = engine_port
        self._gate = gate
        """Between the operator and the API server, if there is one."""
        self.settings = settings
        """Of the operator."""
        headers = {"Authorization": "Bearer of-the-test"}
        self._api = httpx.Client(
            base_url=f"https://127.0.0.1:{server.port}", verify=False, headers=headers, timeout=120.0
        )
        self._node = httpx.Client(base_url=f"http://127.0.0.1:{node_port}", timeout=120.0)

    def create_models(self, count: int) -> None:
        """Create them one after the other, as fast as the API server takes them."""
        for number in range(count):
            manifest = a_model(number, port=self._engine_port)
            path = f"{_MODELS}/namespaces/{manifest['metadata']['namespace']}/speculativemodels"
            self._api.post(path, json=manifest).raise_for_status()

    def ready_models(self) -> int:
        """Models whose condition Ready is true."""
        found = self._api.get(f"{_MODELS}/speculativemodels").json()["items"]
        return sum(_is_ready(each.get("status", {})) for each in found)

    def deployments(self) -> int:
        """Deployments of all models."""
        found = self._api.get("/apis/apps/v1/deployments", params={"limit": 1}).json()
        return len(found["items"]) + int(found["metadata"].get("remainingItemCount", 0))

    def node(self, *, others: bool = False) -> dict[str, Any]:
        """What the engines of the node have seen. others: without those of the first model."""
        found: dict[str, Any] = self._node.get("/summary", params={"others": int(others)}).json()
        return found

    def mark(self) -> None:
        """Let the engines record their next push as the first one."""
        self._node.post("/mark")

    def slow_down(self, what: Slow) -> None:
        """Let this and nothing else be slow from now on. For the API server the place needs a gate."""
        self._node.post("/slow", content=what.value)
        if self._gate is not None:
            self._gate.lift_all()
        if what is Slow.API_SERVER:
            assert self._gate is not None
            self._gate.arm(Fault(Effect.DELAY, seconds=SECONDS))

    def cpu(self) -> dict[str, float]:
        """Seconds of CPU that each part beside the operator has used, by name."""
        return {
            "API server and etcd": cpu_of_children(("etcd", "kube-apiserver")),
            "controllers of Deployments": cpu_of_children(("kube-controller-manager",)),
            "played engines": cpu_of(self._node_pid),
            "Prometheus": cpu_of_children(("prometheus",)),
        }

    def requests(self, since: float, until: float) -> Counter[str]:
        """Requests of the operator between two moments, by verb and kind, from the audit log."""
        return Counter(map(_kind, self._log(since, until)))

    def writes_until_ready(self, since: float) -> list[int]:
        """The operator's writes about each model, up to the one by which its condition Ready became true."""
        counted: Counter[str] = Counter()
        ready: dict[str, int] = {}
        for event in self._log(since, time.time()):
            named = _MODEL.search((event.get("objectRef") or {}).get("name") or "")
            if named is None or named[0] in ready or event["verb"] not in _WRITES:
                continue
            counted[named[0]] += 1
            if _is_ready((event.get("requestObject") or {}).get("status") or {}):
                ready[named[0]] = counted[named[0]]
        return list(ready.values())

    def _log(self, since: float, until: float) -> Iterator[dict[str, Any]]:
        """The operator's requests between two moments, in their order."""
        with (self.server.folder / "audit.log").open("rb") as log:
            for line in log:
                event: dict[str, Any] = json.loads(line)
                if not event.get("userAgent", "").startswith("outrider/"):
                    continue
                if since <= _seconds(event["requestReceivedTimestamp"]) < until:
                    yield event


def _kind(event: Mapping[str, Any]) -> str:
    about = event.get("objectRef") or {}
    part = f"/{about['subresource']}" if "subresource" in about else ""
    return f"{event['verb']} {about.get('resource', 'other')}{part}"


def writes(requests: Mapping[str, int]) -> int:
    """The number of writes, without those of Leases."""
    return sum(
        count
        for name, count in requests.items()
        if name.partition(" ")[0] in _WRITES and not name.endswith(" leases")
    )


def reads(requests: Mapping[str, int]) -> int:
    """The number of reads of objects and lists, without those of Leases."""
    return sum(
        count
        for name, count in requests.items()
        if name.partition(" ")[0] in _READS and name.partition(" ")[2] not in ("leases", "other")
    )


def _is_ready(status: Mapping[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ()))


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def cpu_of_children(programs: Collection[str]) -> float:
    """Seconds of CPU that children of this process with one of these names have used.

    programs: the kernel keeps the first 15 characters of a name.
    """
    names = {name[:_COMMAND_CHARACTERS] for name in programs}
    found = (_stat(folder) for folder in Path("/proc").glob("[0-9]*"))
    return sum(cpu for name, parent, cpu in found if parent == os.getpid() and name in names)


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    return _stat(Path(f"/proc/{pid}"))[2]


def _stat(folder: Path) -> tuple[str, int, float]:
    """Name, parent and seconds of CPU of a process; of one that ended, no name."""
    try:
        text = (folder / "stat").read_text()
    except OSError:
        return "", 0, 0.0
    head, _, rest = text.rpartition(")")
    fields = rest.split()
    ticks = int(fields[11]) + int(fields[12])
    return head.partition("(")[2], int(fields[1]), ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def a_place(folder: Path, source: Source = Source.POD_SCRAPE, slow: Slow = Slow.NOTHING) -> Iterator[Place]:
    """In the block it runs.

    folder: an empty one. source: of the operator's metrics. slow: what `Place.slow_down` will slow down.
    """
    policy = folder / "audit.yaml"
    policy.write_text(yaml.safe_dump(_AUDIT))
    audit = [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={folder / 'audit.log'}",
        "--audit-log-maxsize=10000",  # MB; a rotated file would not be counted
        "--audit-log-mode=batch",
        "--audit-log-batch-max-wait=2s",
    ]
    with an_api_server(folder, options=audit) as server:
        manager = [
            f"--kubeconfig={server.kubeconfig()}",
            f"--controllers={','.join(_CONTROLLERS)}",
            "--leader-elect=false",
            f"--secure-port={free_port()}",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
        ]
        for file in (ROOT / "crds").glob("*.yaml"):
            server.kubectl("apply", "--server-side", "-f", str(file))
        server.until_established(CRD)
        for name in ("outrider-system", *NAMESPACES):
            server.kubectl("create", "namespace", name)
        with running("kube-controller-manager", manager, folder / "manager.log"):
            port, engine_port = free_port(), free_port()
            url = f"https://127.0.0.1:{server.port}"
            node = [sys.executable, "-m", "tests.bench.scale.node", url, str(port), str(engine_port)]
            with (
                python_process(node, folder / "node.log") as engines,
                _settings_of(source, server, folder) as settings,
                _before_the_api_server(server, url, slow) as (gate, more),
            ):
                place = Place(server, (port, engines.pid), engine_port, {**settings, **more}, gate)
                eventually("the node listens", lambda: _listens(place))
                yield place


@contextmanager
def _settings_of(source: Source, server: ApiServer, folder: Path) -> Iterator[Mapping[str, str]]:
    """Settings of the operator. In the block a Prometheus scrapes the engines, if the operator reads it."""
    settings = {"OUTRIDER_METRICS_SOURCE": source.value}
    if source is Source.POD_SCRAPE:
        yield settings
        return
    with a_prometheus(server, folder, scrape_seconds=TICK_SECONDS) as url:
        yield {**settings, "OUTRIDER_PROMETHEUS_URL": url}


@contextmanager
def _before_the_api_server(
    server: ApiServer, url: str, slow: Slow
) -> Iterator[tuple[Gate | None, Mapping[str, str]]]:
    """A gate of the operator's requests, and the operator's settings to go through it, if it is needed."""
    if slow is not Slow.API_SERVER:
        yield None, {}
        return
    with a_loop() as loop, a_proxy(loop, url) as proxy:
        file = server.kubeconfig("proxied", port=proxy.port, scheme="http")
        yield proxy.gate, {"KUBECONFIG": str(file)}


def _listens(place: Place) -> bool:
    try:
        place.node()
    except httpx.TransportError:
        return False
    return True


@contextmanager
def python_process(
    words: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """In the block it runs, and imports from this repository."""
    with running(
        words[0], words[1:], log, {**os.environ, **(environment or {}), "PYTHONPATH": str(ROOT)}
    ) as p:
        yield p
