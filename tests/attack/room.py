"""A real API server without nodes, the real operator process under the chart's memory limit, and pods whose
engines a test plays."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from kubernetes.utils.quantity import parse_quantity

from outrider.plan.names import CONTAINER, MODEL_LABEL, PORT_NAME, labels
from tests.attack.engines import Engines, OpenEngine
from tests.cluster.kubectl import Object
from tests.lifecycle.api_server import ApiServer
from tests.lifecycle.operators import QUICK, an_operator
from tests.lifecycle.releases import CHART, CRD, ROOT
from tests.lifecycle.stored_models import a_model, eventually, is_taken
from tests.ports import free_port

NAMESPACE = "default"
HEALTHY = "healthy"
PUSHES = 3
_MODELS = f"/apis/outrider.dev/v1alpha1/namespaces/{NAMESPACE}/speculativemodels"
_CORE = f"/api/v1/namespaces/{NAMESPACE}"
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/outrider"
_AT_ONCE = 8


def memory_limit() -> int:
    """Bytes that the chart gives the operator."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    return int(parse_quantity(values["resources"]["limits"]["memory"]))  # type: ignore[no-untyped-call]


class Api:
    """Writes what kubectl would: objects of a megabyte, and hundreds of them."""

    def __init__(self, server: ApiServer) -> None:
        self._http = httpx.Client(
            base_url=f"https://127.0.0.1:{server.port}",
            verify=False,
            headers={"Authorization": "Bearer of-the-test"},
            timeout=60.0,
        )

    def get(self, path: str) -> Object:
        """One object."""
        return self._done(self._http.get(path))

    def create(self, path: str, manifest: Mapping[str, Any]) -> Object:
        """In this collection."""
        return self._done(self._http.post(path, json=manifest))

    def patch(self, path: str, change: Mapping[str, Any]) -> Object:
        """By merging."""
        headers = {"Content-Type": "application/merge-patch+json"}
        return self._done(self._http.patch(path, json=change, headers=headers))

    def _done(self, answer: httpx.Response) -> Object:
        assert answer.is_success, f"{answer.request.method} {answer.request.url}: {answer.text[:500]}"
        found: Object = answer.json()
        return found


@dataclass
class Operator:
    """The process that a room looks at."""

    process: subprocess.Popen[bytes]
    limit: int
    log: Path
    port: int

    @property
    def peak(self) -> int:
        """Bytes of memory, the most since `forget_peak`."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))

    def forget_peak(self) -> None:
        """Count from what it takes now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def metric(self, name: str) -> float:
        """A metric without labels of its own."""
        lines = httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=10.0).text.splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))

    def assert_alive_within_its_memory(self, what: str) -> None:
        """It runs, and never took more than the limit."""
        assert self.process.poll() is None, f"{what}: it ended\n{self.log.read_text()[-3000:]}"
        peak = self.peak
        print(f"{what}: peak {peak / 2**20:.0f} MiB of {self.limit / 2**20:.0f} MiB")
        assert peak < self.limit, f"{what}: {peak} of {self.limit} bytes"


@dataclass
class Room:
    """One API server with the definition, and what a test puts there."""

    server: ApiServer
    engines: Engines
    api: Api
    reconciled: int = 0
    healthy: list[OpenEngine] = field(default_factory=list)

    def create_model(self, manifest: Object) -> None:
        """A SpeculativeModel."""
        self.api.create(_MODELS, manifest)

    def status(self, model: str) -> Object:
        """As it is written."""
        found: Object = self.api.get(f"{_MODELS}/{model}").get("status", {})
        return found

    def reason(self, model: str) -> str:
        """What its status says in a word."""
        return str(self.status(model).get("reason", ""))

    def create_config_map(self, manifest: Object) -> None:
        """A ConfigMap."""
        self.api.create(f"{_CORE}/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", **manifest})

    def start_engine(self, model: str, name: str) -> OpenEngine:
        """A ready pod of a model, as a ReplicaSet and a kubelet would leave it."""
        address, engine = self.engines.add(name)
        self.create_pod(model, name)
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        self.api.patch(f"{_CORE}/pods/{name}/status", {"status": status})
        return engine

    def create_pod(self, model: str, name: str) -> None:
        """A pod of a model that waits for a node."""
        container = {
            "name": CONTAINER,
            "image": "engine:x",
            "ports": [{"name": PORT_NAME, "containerPort": self.engines.port}],
        }
        metadata = {"name": name, "labels": {**labels(model), MODEL_LABEL: model}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
        self.api.create(f"{_CORE}/pods", pod)

    def at_once(self, what: Any, over: Iterable[Any]) -> list[Any]:
        """Call it with each of many, some at a time."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(what, over))

    def leadership(self) -> tuple[str, int, str]:
        """Holder, transitions and term of the Lease."""
        lease = self.api.get(_LEASE)
        spec, annotations = lease["spec"], lease["metadata"].get("annotations", {})
        return (
            spec.get("holderIdentity", ""),
            spec.get("leaseTransitions", 0),
            annotations.get("outrider.dev/term", ""),
        )

    def assert_the_healthy_model_is_served(self) -> None:
        """A change of its spec is carried out, and its engine gets its table at several ticks more."""
        [engine] = self.healthy
        before, self.reconciled = engine.puts, self.reconciled + 1
        change = {"spec": {"podTemplate": {"metadata": {"annotations": {"round": str(self.reconciled)}}}}}
        self.api.patch(f"{_MODELS}/{HEALTHY}", change)
        eventually("the healthy model is reconciled", self._carried_out)
        eventually("the healthy model is tuned", lambda: engine.puts >= before + PUSHES)

    def _carried_out(self) -> bool:
        found = self.server.get("deployment", HEALTHY, NAMESPACE)
        template = {} if found is None else found["spec"]["template"]["metadata"].get("annotations", {})
        return bool(template.get("round") == str(self.reconciled))

    @contextmanager
    def operator(self, name: str) -> Iterator[Operator]:
        """In the block it runs under the chart's memory limit, and leads."""
        limit, port = memory_limit(), free_port()
        with an_operator(self.server, name, settings=QUICK, port=port) as process:
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (limit, limit))
            operator = Operator(process, limit, self.server.folder / f"{name}.log", port)
            eventually("it leads", lambda: "leading, term" in operator.log.read_text())
            yield operator


def prepare(server: ApiServer, engines: Engines) -> Room:
    """The definition, and one healthy model with an engine."""
    for file in (ROOT / "crds").glob("*.yaml"):
        server.kubectl("apply", "--server-side", "-f", str(file))
    server.until_established(CRD)
    room = Room(server, engines, Api(server))
    eventually("objects are taken", lambda: is_taken(server, a_model(HEALTHY)))
    room.healthy.append(room.start_engine(HEALTHY, f"{HEALTHY}-1"))
    return room
