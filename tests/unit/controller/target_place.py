"""A target in a quiet cluster: its pods, which answer by HTTP as engines with or without the plugin do."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx

from outrider import __version__
from outrider.cluster.resources import CONFIG_MAPS, PODS, Resource
from outrider.controller.fleet import TunedModel
from outrider.controller.reconcile.reconciler import Reconciler
from outrider.controller.store import Store
from outrider.controller.store_fleet import StoreFleet
from outrider.controller.stored import Key
from outrider.engine.client import EngineClient
from outrider.plan import PlanSettings
from outrider.plan.names import PLUGIN_ANNOTATION, schedule_config_map
from outrider.runtimes.engine_launch import PUBLIC_KEY_FILE
from outrider_engine.control.signature import Gate, read_signature
from outrider_protocol.control_api import Refusal
from tests.unit.controller.factories import NOW, a_raw_model, a_raw_pod, ago
from tests.unit.controller.quiet_cluster import QuietCluster
from tests.unit.engine.fake_engine import FakeEngine
from tests.unit.transport.played import played

KeptT = TypeVar("KeptT")
APP = {"app": "llm"}
_REQUIREMENT = re.compile(r"(?P<key>[^ ]+) (?P<operator>in|notin) \((?P<values>[^)]*)\)")


def meets(labels: dict[str, str], selector: str) -> bool:
    """Whether labels meet a selector in the form of a query."""
    for part in re.split(r",(?![^(]*\))", selector):
        found = _REQUIREMENT.fullmatch(part)
        key, _, value = part.partition("=")
        if found is not None:
            among = labels.get(found["key"]) in found["values"].split(",")
            held = among == (found["operator"] == "in")
        elif part.startswith("!"):
            held = part[1:] not in labels
        else:
            held = labels.get(key) == value if "=" in part else key in labels
        if not held:
            return False
    return True


class ListingCluster(QuietCluster):
    """Lists pods by any selector. refuses: raised by a read of an object or a list."""

    def __init__(self, *models: dict[str, Any]) -> None:
        super().__init__(*models)
        self.refuses: Exception | None = None
        self.listed: list[str] = []

    async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any] | None:
        if self.refuses is not None and resource.plural not in ("secrets", "configmaps"):
            raise self.refuses
        return await super().get(resource, namespace, name)

    async def list_through(
        self, resource: Resource, namespace: str, keep: Callable[[Any], KeptT | None], *, labels: str
    ) -> tuple[list[KeptT], int]:
        self.listed.append(labels)
        pods = (raw for path, raw in self.objects.items() if path.startswith(resource.path(namespace)))
        kept = (keep(raw) for raw in pods if meets(raw["metadata"]["labels"], labels))
        return [each for each in kept if each is not None], self.version_number


def _answer(status: int, body: dict[str, Any]) -> httpx.Response:
    return httpx.Response(status, stream=httpx.ByteStream(json.dumps(body).encode()))


@dataclass
class Engine:
    """An engine in a pod. key_of: the model whose key it reads. state: differences from the usual state.

    silent: it refuses connections. hangs: it accepts them and does not answer.
    """

    pod_uid: str
    key_of: str | None = "m"
    plugin: bool = True
    silent: bool = False
    hangs: bool = False
    asked: int = 0
    state: dict[str, Any] = field(default_factory=dict)

    def answer(self, request: httpx.Request, public_key: Path) -> httpx.Response:
        self.asked += 1
        if self.silent:
            raise ConnectionResetError("connection refused")
        if not self.plugin:
            return _answer(404, {"detail": "Not Found"})
        try:
            gate = Gate(public_key, self.pod_uid)
            signature = read_signature(request.headers.get("Authorization"))
            gate.admit(signature, method=request.method, path=request.url.path, body=request.content)
        except Refusal as error:
            return _answer(401, {"error": {"reason": "Unauthorized", "message": str(error)}})
        usual = FakeEngine(max_num_seqs=64).state()
        own = {"method": "eagle3", "runner": "V1", "pluginVersion": __version__}
        return _answer(200, {**usual, **own, **self.state})


class TargetPlace:
    """SpeculativeModels with targets, and pods of other owners."""

    def __init__(self, folder: Path, **target: Any) -> None:
        self.folder = folder
        self.store = Store()
        self.cluster = ListingCluster()
        self.engines: dict[str, Engine] = {}
        self.reconciler = Reconciler(
            self.cluster,  # type: ignore[arg-type]
            self.store,
            settings=PlanSettings(),
            now=lambda: self.now,
            engines=EngineClient(timeout_seconds=5.0, http=played(self._answer)),
        )
        self.now: datetime = NOW
        self.has_target("m", **(target or {"selector": {"matchLabels": APP}}))

    def has_target(self, name: str, *, age: float = 60.0, **target: Any) -> None:
        raw = a_raw_model(name, uid=f"uid-{name}", model=None, speculation=None, engine={}, target=target)
        raw["spec"] = {key: part for key, part in raw["spec"].items() if part is not None}
        raw["metadata"]["creationTimestamp"] = ago(age)
        self.store.models.put(raw)
        self.cluster.objects[f"/apis/outrider.dev/v1alpha1/namespaces/default/speculativemodels/{name}"] = raw

    def has_pod(
        self,
        name: str = "llm-1",
        *,
        labels: dict[str, str] | None = None,
        ready: bool = True,
        names: str | None = "m",
        leaving: bool = False,
        annotations: dict[str, str] | None = None,
        **engine: Any,
    ) -> Engine:
        """A pod with an engine. names: the SpeculativeModel in its annotation, beside other `annotations`."""
        ip = f"10.0.0.{len(self.engines) + 1}"
        raw = a_raw_pod(name, ready=ready, ip=ip, leaving=leaving)
        raw["metadata"]["labels"] = APP if labels is None else labels
        named = {} if names is None else {PLUGIN_ANNOTATION: names}
        raw["metadata"]["annotations"] = {**named, **(annotations or {})}
        self.cluster.objects[PODS.path("default", name)] = raw
        self.engines[ip] = made = Engine(f"uid-{name}", **engine)
        return made

    def loses_pod(self, name: str = "llm-1") -> None:
        del self.cluster.objects[PODS.path("default", name)]

    async def passes(self, times: int = 2, *, of: str = "m") -> None:
        """Reconcile, by default until the keys are in the cluster, and then once more."""
        for _ in range(times):
            await self.reconciler.reconcile(Key("default", of))
            for path, raw in list(self.cluster.objects.items()):
                if path.startswith(CONFIG_MAPS.path("default")):
                    self.cluster.version_number += 1
                    raw["metadata"] = {
                        "creationTimestamp": NOW.isoformat(),
                        **raw["metadata"],
                        "resourceVersion": str(self.cluster.version_number),
                    }
                    self.store.children[CONFIG_MAPS].put(raw)

    def waits(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def conditions(self, of: str = "m") -> dict[str, str]:
        return {kind: entry["reason"] for kind, entry in self.cluster.conditions(of).items()}

    def trouble(self, of: str = "m") -> str:
        return str(self.cluster.conditions(of)["Degraded"]["message"])

    def status(self, of: str = "m") -> dict[str, Any]:
        return self.cluster.status[of]

    def tuned(self, of: str = "m") -> TunedModel | None:
        return StoreFleet(self.store).tuned_model(Key("default", of))

    def tuned_pods(self, of: str = "m") -> list[str]:
        found = self.tuned(of)
        return [] if found is None else [pod.name for pod in found.pods]

    def _answer(self, request: httpx.Request) -> httpx.Response | Awaitable[httpx.Response]:
        engine = self.engines[request.url.host]
        if engine.hangs:
            engine.asked += 1
            return asyncio.Future()
        file = self.folder / f"{engine.key_of}.pub"
        config = self.cluster.objects.get(
            CONFIG_MAPS.path("default", schedule_config_map(str(engine.key_of)))
        )
        file.write_bytes(b"" if config is None else config["data"][PUBLIC_KEY_FILE].encode())
        return engine.answer(request, file)
