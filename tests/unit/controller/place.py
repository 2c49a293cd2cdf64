"""One model in a quiet cluster, and the passes over it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from outrider.cluster.resources import DEPLOYMENTS, MODELS, REPLICA_SETS
from outrider.controller.reconcile.reconciler import Reconciler
from outrider.controller.store import Store
from outrider.controller.stored import Key
from outrider.plan import PlanSettings
from outrider.plan.names import REVISION_LABEL, download_labels
from outrider.plan.rollout import Memory
from tests.unit.controller.factories import NOW, a_condition, a_raw_model, a_raw_pod
from tests.unit.controller.quiet_cluster import QuietCluster

KEY = Key("default", "m")
TOO_LARGE: dict[str, Any] = {
    "model": {"uri": "hf://meta-llama/Llama-3.3-70B-Instruct"},
    "podTemplate": {"spec": {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-L4"}}},
}
"""Of a spec whose weights are more than the GPU has."""


@dataclass
class Place:
    """One model in a quiet cluster."""

    raw: dict[str, Any] = field(default_factory=a_raw_model)
    pass_seconds: float = 60.0
    on_external_change: list[Key] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = Store()
        self.store.models.put(self.raw)
        self.cluster = QuietCluster(self.raw)
        self.reconciler = self.a_reconciler(self.pass_seconds)

    def a_reconciler(self, pass_seconds: float) -> Reconciler:
        return Reconciler(
            self.cluster,  # type: ignore[arg-type]
            self.store,
            settings=PlanSettings(),
            now=lambda: NOW,
            on_external_change=self.on_external_change.append,
            pass_seconds=pass_seconds,
        )

    async def passes(self, times: int = 1) -> None:
        for _ in range(times):
            await self.reconciler.reconcile(KEY)

    async def failing_passes(self, error: Exception, *, times: int) -> None:
        for _ in range(times):
            with pytest.raises(type(error)):
                await self.reconciler.reconcile(KEY)

    async def fails(self, error: Exception, *, times: int) -> None:
        """The API server answers every write of a child so, for some passes."""
        self.cluster.fails = error
        await self.failing_passes(error, times=times)
        self.cluster.fails = None

    def has_a_ready_pod(self) -> None:
        deployment = self.cluster.objects[DEPLOYMENTS.path("default", "m")]
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        self.store.pods.put(a_raw_pod("m-1", ready=True, revision=labels[REVISION_LABEL]))

    @property
    def conditions(self) -> dict[str, str]:
        return {kind: entry["reason"] for kind, entry in self.cluster.conditions("m").items()}

    @property
    def trouble(self) -> str:
        return str(self.cluster.conditions("m")["Degraded"]["message"])


COMMIT = "b968826d9c46dd6066d109eabc6255188de91218"
TARGET = {
    "path": f"hub/models--org--target/snapshots/{COMMIT}",
    "revision": COMMIT,
    "bytes": 16_100_000_000,
    "hiddenSize": 4096,
}
HUB = {"uri": "hf://org/target"}


def a_download(
    job: str, *, done: dict[str, Any] | None = None, version: int = 1, suffix: str = "x", **what: Any
) -> dict[str, Any]:
    """A pod of a Job. done: what it brought; None while it is at it. suffix: of its name."""
    raw = a_raw_pod(f"{job}-{suffix}", version=version, **what)
    raw["metadata"]["labels"] = download_labels("m")
    owner = {"kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
    raw["metadata"]["ownerReferences"] = [owner]
    if done is not None:
        end = {"terminated": {"exitCode": 0, "reason": "Completed", "message": json.dumps({"weights": done})}}
        raw["status"]["containerStatuses"][0]["state"] = end
    return raw


class CachedPlace(Place):
    """One model with a cache."""

    def __init__(self, **spec: Any) -> None:
        super().__init__(a_raw_model(**{"model": HUB, "cache": {"size": "20Gi"}, **spec}))

    @property
    def job(self) -> str:
        (name,) = (raw["metadata"]["name"] for raw in self.cluster.objects.values() if raw["kind"] == "Job")
        return str(name)

    @property
    def weights(self) -> Any:
        return self.cluster.status["m"]["weights"]

    async def downloads(self, **what: Any) -> None:
        self.store.pods.put(a_download(self.job, **what))
        await self.passes()

    def has(self, resource: Any, name: str) -> bool:
        return resource.path("default", name) in self.cluster.objects


async def begun(**spec: Any) -> CachedPlace:
    place = CachedPlace(**spec)
    await place.passes()
    return place


BOOM = {"ended": (1, "boom"), "restarts": 2}


class Deployments:
    """Acts for the controller of Deployments, and for a user who changes the model."""

    def __init__(self, place: Place | None = None) -> None:
        self.place = place or Place(a_raw_model(replicas=2))

    @property
    def _newest(self) -> str:
        """The next resource version of the cluster."""
        self.place.cluster.version_number += 1
        return str(self.place.cluster.version_number)

    @property
    def raw(self) -> dict[str, Any]:
        return self.place.cluster.objects[DEPLOYMENTS.path("default", "m")]

    @property
    def revision(self) -> str:
        """Of the pods that are wanted."""
        return str(self.raw["spec"]["template"]["metadata"]["labels"][REVISION_LABEL])

    @property
    def image(self) -> str:
        return str(self.raw["spec"]["template"]["spec"]["containers"][0]["image"])

    @property
    def surge(self) -> tuple[int, int]:
        update = self.raw["spec"]["strategy"]["rollingUpdate"]
        return update["maxSurge"], update["maxUnavailable"]

    @property
    def memory(self) -> Memory:
        return Memory.of(self.raw["metadata"].get("annotations") or {})

    def change(self, **spec: Any) -> None:
        """What a user writes."""
        path = MODELS.path("default", "m")
        status = self.place.cluster.objects[path]["status"]
        raw = a_raw_model(version=int(self._newest), status=status, **{"replicas": 2, **spec})
        self.place.cluster.objects[path] = raw
        self.place.store.models.put(raw)

    async def complete(self) -> None:
        """All pods of the wanted revision serve, and reconcile sees it."""
        self._keep_replica_set()
        wanted = self.raw["spec"]["replicas"]
        self._pods(
            *(a_raw_pod(f"{self.revision}-{n}", revision=self.revision, ready=True) for n in range(wanted))
        )
        counts = ("replicas", "updatedReplicas", "availableReplicas", "readyReplicas")
        self._status(dict.fromkeys(counts, wanted))
        await self.place.passes()

    async def starts(self, *, requests: dict[str, str] | None = None, **pod: Any) -> None:
        """One pod of the wanted revision is there beside those that serve."""
        self._keep_replica_set()
        new = a_raw_pod(f"{self.revision}-0", revision=self.revision, requests=requests, **pod)
        self._pods(new, among=True)
        self._status({"replicas": 3, "updatedReplicas": 1, "availableReplicas": 2})
        await self.place.passes()

    async def gives_up(self, **pod: Any) -> None:
        """The new pod is in trouble, and the deadline is over."""
        self._keep_replica_set()
        self._pods(a_raw_pod(f"{self.revision}-0", revision=self.revision, **(pod or BOOM)), among=True)
        late = a_condition("Progressing", "False", reason="ProgressDeadlineExceeded")
        counts = {"replicas": 3, "updatedReplicas": 1, "availableReplicas": 2}
        self._status({**counts, "conditions": [late]})
        await self.place.passes()

    def forgets_replica_sets(self) -> None:
        """Its history is gone."""
        objects = self.place.cluster.objects
        for path in [path for path in objects if path.startswith(REPLICA_SETS.path("default"))]:
            del objects[path]

    def _keep_replica_set(self) -> None:
        template, uid = self.raw["spec"]["template"], self.raw["metadata"]["uid"]
        labels = {**template["metadata"]["labels"], "pod-template-hash": f"hash-{self.revision}"}
        made = {**template, "metadata": {**template["metadata"], "creationTimestamp": None, "labels": labels}}
        name = f"m-{self.revision}"
        self.place.cluster.objects[REPLICA_SETS.path("default", name)] = {
            "metadata": {
                "name": name,
                "labels": labels,
                "ownerReferences": [{"uid": uid, "controller": True}],
            },
            "spec": {"template": made},
        }

    def _pods(self, *raws: dict[str, Any], among: bool = False) -> None:
        pods = self.place.store.pods
        if not among:
            for known in list(pods):
                pods.drop(known.metadata)
        for raw in raws:
            pods.put({**raw, "metadata": {**raw["metadata"], "resourceVersion": self._newest}})

    def _status(self, status: dict[str, Any]) -> None:
        metadata = {**self.raw["metadata"], "resourceVersion": self._newest}
        seen = {**self.raw, "metadata": metadata, "status": status}
        self.place.cluster.objects[DEPLOYMENTS.path("default", "m")] = seen
        self.place.store.children[DEPLOYMENTS].put(seen)


async def a_model_that_serves(**spec: Any) -> Deployments:
    deployments = Deployments(Place(a_raw_model(**{"replicas": 2, **spec})))
    await deployments.place.passes()
    await deployments.complete()
    return deployments


async def a_failed_rollout(**spec: Any) -> Deployments:
    """Of another image."""
    deployments = await a_model_that_serves()
    deployments.change(engine={"image": "engine:2"}, **spec)
    await deployments.place.passes()
    assert deployments.image == "engine:2"
    await deployments.gives_up()
    return deployments


CONNECTOR = {"kv-transfer-config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}
DRAFTS = {"method": "mtp", "numSpeculativeTokens": 3}


def a_decode_side(**speculation: Any) -> Place:
    engine = {"image": "engine:1", "args": CONNECTOR, "kvTransferPeer": "prefill"}
    return Place(a_raw_model(engine=engine, speculation=DRAFTS | speculation))


def a_prefill_side(**speculation: Any) -> dict[str, Any]:
    engine = {"image": "engine:1", "args": CONNECTOR, "kvTransferPeer": "m"}
    return a_raw_model("prefill", uid="uid-p", engine=engine, speculation=DRAFTS | speculation)
