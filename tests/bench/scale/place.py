"""Everything that a run needs beside the operator, and the operator's process with its figures."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import yaml

from outrider.controller.settings import MetricsSourceKind as Source
from tests.faults.prometheus import a_prometheus
from tests.lifecycle.api_server import ApiServer, an_api_server, free_port, running
from tests.lifecycle.operators import QUICK
from tests.lifecycle.releases import CRD, ROOT
from tests.lifecycle.stored_models import eventually

NAMESPACES = tuple(f"team-{number}" for number in range(10))
REPLICAS = 3
_MODELS = "/apis/outrider.dev/v1alpha1"
_CONTROLLERS = ("deployment-controller", "replicaset-controller", "disruption-controller")
_WRITES = ("create", "update", "patch", "delete")
_MODEL = re.compile(r"^m-\d{4}")
TICK_SECONDS = 10
_SETTINGS = {
    **QUICK,
    "OUTRIDER_TUNING_INTERVAL_SECONDS": str(TICK_SECONDS),
    "OUTRIDER_LEASE_NAMESPACE": "outrider-system",
}
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


def a_model(number: int) -> dict[str, Any]:
    """An 8B model with an EAGLE-3 drafter, as in the examples."""
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
            "engine": {"version": "0.32.0", "image": "engine:x", "args": {"max-num-seqs": 128}},
            "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "64Gi"}},
            "replicas": REPLICAS,
        },
    }


class Place:
    """An API server with the controllers of Deployments, a played node, and a client of both."""

    def __init__(self, server: ApiServer, node_port: int, settings: Mapping[str, str]) -> None:
        self.server = server
        self.settings = settings
        """Of the operator."""
        headers = {"Authorization": "Bearer of-the-test"}
        self._api = httpx.Client(
            base_url=f"https://127.0.0.1:{server.port}", verify=False, headers=headers, timeout=120.0
        )
        self._node = httpx.Client(base_url=f"http://127.0.0.1:{node_port}", timeout=120.0)

    def create_models(self, count: int) -> None:
        """Create them one after the other, as fast as the API server takes them."""
        for manifest in map(a_model, range(count)):
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

    def node(self) -> dict[str, Any]:
        """What the engines of the node have seen."""
        found: dict[str, Any] = self._node.get("/summary").json()
        return found

    def mark(self) -> None:
        """Let the engines record their next push as the first one."""
        self._node.post("/mark")

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


def _is_ready(status: Mapping[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", ()))


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


@contextmanager
def a_place(folder: Path, source: Source = Source.POD_SCRAPE) -> Iterator[Place]:
    """In the block it runs. folder: an empty one. source: of the operator's metrics."""
    policy = folder / "audit.yaml"
    policy.write_text(yaml.safe_dump(_AUDIT))
    audit = [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={folder / 'audit.log'}",
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
            port = free_port()
            url = f"https://127.0.0.1:{server.port}"
            node = [sys.executable, "-m", "tests.bench.scale.node", url, str(port)]
            with _process(node, folder / "node.log"), _settings_of(source, server, folder) as settings:
                place = Place(server, port, settings)
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


def _listens(place: Place) -> bool:
    try:
        place.node()
    except httpx.TransportError:
        return False
    return True


@contextmanager
def _process(
    words: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    with running(
        words[0], words[1:], log, {**os.environ, **(environment or {}), "PYTHONPATH": str(ROOT)}
    ) as p:
        yield p


@dataclass(frozen=True)
class Usage:
    """What a process has used so far. cpu: seconds. peak: MiB."""

    cpu: float
    peak: float


class Operator:
    """The operator's process of one start."""

    def __init__(self, process: subprocess.Popen[bytes], clocks: Path) -> None:
        self._process = process
        self._clocks = clocks

    def usage(self) -> Usage:
        """CPU time and peak of memory, by the kernel."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        peak = next(line.split()[1] for line in lines if line.startswith("VmHWM:"))
        return Usage((int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"), int(peak) / 1024)

    def seen(self, since: float, until: float) -> list[dict[str, Any]]:
        """The lines of its clocks between two moments."""
        lines = [json.loads(line) for line in self._clocks.read_text().splitlines() if line.endswith("}")]
        return [line for line in lines if since <= line["at"] < until]

    def stop(self) -> None:
        """End it as Kubernetes would."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)


@contextmanager
def an_operator(place: Place, name: str) -> Iterator[Operator]:
    """In the block it runs."""
    clocks, began = place.server.folder / f"{name}.jsonl", time.time()
    words = [sys.executable, "-m", "tests.bench.scale.observed", str(clocks), "run"]
    environment = {
        **_SETTINGS,
        **place.server.environment,
        **place.settings,
        "OUTRIDER_HTTP_PORT": str(free_port()),
    }
    environment["POD_NAMESPACE"] = "outrider-system"
    with _process(words, place.server.folder / f"{name}.log", environment) as process:
        operator = Operator(process, clocks)
        eventually("it runs", lambda: clocks.exists() and bool(operator.seen(began, time.time())))
        yield operator
