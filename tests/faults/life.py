"""The life of one model in a namespace of its own, with an operator of its own that faults reach."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from outrider.cluster.lease import LEASE_NAME
from outrider.controller.leader import LeaderLimits
from outrider.plan.names import MODEL_LABEL, REVISION_LABEL, canary_deployment
from outrider.plan.rollout import Memory
from tests.bench.scale.place import a_model
from tests.cluster.kubectl import Object
from tests.faults.gate import Gate
from tests.faults.oracles import Picture, differences, picture
from tests.faults.place import MODELS, Place
from tests.faults.pods import History
from tests.faults.proxy import Proxy, a_proxy
from tests.faults.warm_operator import WarmOperator
from tests.ports import free_port

NAME = "m"
REPLICAS = 2
SETTLE_SECONDS = 180.0
"""Until a step of a life is done. On a quiet machine it takes two."""
REST_SECONDS = LeaderLimits().pause_seconds + 0.1
"""Without a write, after which the operator rests."""
_LOOK_SECONDS = 0.2
SETTINGS = {
    "OUTRIDER_METRICS_SOURCE": "PodScrape",
    "OUTRIDER_TUNING_INTERVAL_SECONDS": "1",
    "OUTRIDER_PUSH_LEASE_SECONDS": "120",
    "OUTRIDER_LOG_FORMAT": "text",
}
OVERRIDE = "outrider.dev/schedule-override"
CHILDREN = {
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Service": "/api/v1/namespaces/{}/services",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "Pod": "/api/v1/namespaces/{}/pods",
}
"""Collections in which a model has objects."""


class NotSettled(AssertionError):
    """A step of a life was not done in time."""


def wait_until(lacks: Callable[[], str], seconds: float = SETTLE_SECONDS) -> None:
    """Wait until nothing lacks.

    Raises:
        NotSettled: it does in the end, with what.
    """
    deadline = time.monotonic() + seconds
    while missing := lacks():
        if time.monotonic() > deadline:
            raise NotSettled(f"not within {seconds:.0f} s: {missing}")
        time.sleep(_LOOK_SECONDS)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a settled model looks like. k: of the pushed schedule, for all batch sizes; None without a push.

    launch: annotation of its pods. canary: whether it has one. scratch: text in the arguments of its engines.
    """

    replicas: int = REPLICAS
    k: int | None = 1
    launch: str = ""
    canary: bool = False
    scratch: str = ""


class Life:
    """One model, its operator, and what a user does to it."""

    def __init__(
        self, place: Place, namespace: str, proxy: Proxy, engines: Gate, operator: WarmOperator
    ) -> None:
        self.place = place
        self.namespace = namespace
        self.proxy = proxy
        self.engines = engines
        self.operator = operator
        self.client = place.client_of(namespace, NAME)
        self.wanted = Wanted()
        """What the last step wanted."""
        self._models = MODELS.format(namespace)
        self._model = f"{self._models}/{NAME}"

    @property
    def gate(self) -> Gate:
        """Before the API server."""
        return self.proxy.gate

    @property
    def history(self) -> History:
        """Of its pods."""
        return self.place.pods.of(self.namespace)

    def create(self, **speculation: Any) -> None:
        """The model. speculation: fields of the tuner."""
        manifest = a_model(0)
        manifest["metadata"] = {
            "name": NAME,
            "namespace": self.namespace,
            "annotations": {OVERRIDE: "*:1", f"{OVERRIDE}-until": "2100-01-01T00:00:00Z"},
        }
        spec = manifest["spec"]
        spec["replicas"] = REPLICAS
        spec["engine"]["port"] = self.place.engine_port
        tuning = {"mode": "Auto", "structuralOff": "Allow", "canary": "Allow"}
        spec["speculation"]["tuning"] = {**tuning, **speculation}
        self.place.api.create(self._models, manifest)

    def create_like(self, model: Object) -> None:
        """A model with the spec and the annotations of another one."""
        metadata = {
            "name": NAME,
            "namespace": self.namespace,
            "annotations": model["metadata"]["annotations"],
        }
        manifest = {name: model[name] for name in ("apiVersion", "kind", "spec")}
        self.place.api.create(self._models, {**manifest, "metadata": metadata})

    def change(self, change: Mapping[str, Any]) -> None:
        """A merge into the spec."""
        self.place.api.patch(self._model, {"spec": change})

    def override(self, k: int) -> None:
        """Ask for one K for all batch sizes."""
        self.place.api.patch(self._model, {"metadata": {"annotations": {OVERRIDE: f"*:{k}"}}})

    def order(self, launch: str, *, canary: bool = False) -> None:
        """Order a launch in the tuner's place: it follows an order that it finds."""
        data = {"launch": launch, "canary": "true" if canary else "false"}
        path = CHILDREN["ConfigMap"].format(self.namespace)
        if self.place.api.get(f"{path}/{NAME}-launch") is not None:
            self.place.api.patch(f"{path}/{NAME}-launch", {"data": data})
            return
        model = self.model()
        assert model is not None
        owner = {
            "apiVersion": model["apiVersion"],
            "kind": model["kind"],
            "name": NAME,
            "uid": model["metadata"]["uid"],
            "controller": True,
        }
        labels = {MODEL_LABEL: NAME, "app.kubernetes.io/managed-by": "outrider"}
        metadata = {"name": f"{NAME}-launch", "labels": labels, "ownerReferences": [owner]}
        self.place.api.create(path, {"metadata": metadata, "data": data})

    def delete(self) -> None:
        """The model."""
        self.place.api.delete(self._model)

    def model(self) -> Object | None:
        """As the API server has it."""
        return self.place.api.get(self._model)

    def objects(self) -> dict[str, list[Object]]:
        """All objects of the namespace by kind, without those that every namespace has."""
        return {
            kind: [o for o in self.place.api.items(path.format(self.namespace)) if _is_ours(kind, o)]
            for kind, path in CHILDREN.items()
        }

    def settle(self, wanted: Wanted, seconds: float = SETTLE_SECONDS) -> None:
        """Wait until the model is as wanted, by the API server and by its engines.

        Raises:
            NotSettled: it is not in time, with what lacks.
        """
        self.until(lambda: self.lacks(wanted) or self.unrest(), seconds)

    def picture(self) -> Picture:
        """The model as it is."""
        return picture(self.objects(), len(self.history.started), self.namespace)

    def must_be_like(self, reference: Picture, *, counts: bool = True) -> None:
        """Wait until it is. counts: templates and pods that ever were count as well.

        Raises:
            NotSettled: it is not in time, with the differences.
        """

        def lacks() -> str:
            found = self.picture()
            like = found if counts else replace(found, templates=reference.templates, pods=reference.pods)
            return "; ".join(differences(reference, like))

        self.until(lacks)

    def condition(self, kind: str) -> dict[str, str]:
        """A condition of the status; empty without it."""
        model = self.model()
        conditions = [] if model is None else model.get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), {})

    def wait(self, seconds: float) -> None:
        """Let a fault last."""
        time.sleep(seconds)

    def unrest(self, *, reads: bool = False) -> str:
        """What the operator wrote a moment ago; "" if it rests. reads: those count as well."""
        since = time.time() - REST_SECONDS
        calls = itertools.takewhile(lambda seen: seen.at > since, reversed(self.gate.calls))
        busy = [seen.call for seen in calls if seen.call.plural != "leases" and (reads or seen.call.writes)]
        return f"no {busy[0]} for {REST_SECONDS} s" if busy else ""

    def until(
        self, lacks: Callable[[], str], seconds: float = SETTLE_SECONDS, *, restarts: bool = True
    ) -> None:
        """Wait until nothing lacks. restarts: start the operator again where it was killed."""

        def look() -> str:
            if restarts and not self.operator.alive:
                self.restart()
            return lacks()

        wait_until(look, seconds)

    def restart(self) -> None:
        """Start the operator, also after a kill.

        Then the Lease is given back in place of the process that cannot. Leases that expire are tested in
        `tests/unit/cluster/test_lease.py`.
        """
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{LEASE_NAME}"
        if self.place.api.get(path) is not None:
            self.place.api.patch(path, {"spec": {"holderIdentity": ""}})
        self.operator.start()

    def lacks(self, wanted: Wanted) -> str:
        """What is not yet as wanted; "" if nothing is."""
        model = self.model()
        if model is None:
            return "no model"
        status = model.get("status", {})
        conditions = {c["type"]: c for c in status.get("conditions", ())}
        ready = conditions.get("Ready", {})
        if status.get("observedGeneration") != model["metadata"]["generation"]:
            return "the status is of an older spec"
        if ready.get("status") != "True":
            return f"not Ready: {ready.get('reason')}: {ready.get('message')}"
        return self._deployments_lack(wanted) or self._pods_lack(wanted) or self._engines_lack(wanted)

    def _deployments_lack(self, wanted: Wanted) -> str:
        found = {
            each["metadata"]["name"]: each
            for each in self.place.api.items(CHILDREN["Deployment"].format(self.namespace))
        }
        expected = {NAME: wanted.replicas - wanted.canary}
        if wanted.canary:
            expected[canary_deployment(NAME)] = 1
        if {name: each["spec"]["replicas"] for name, each in found.items()} != expected:
            return f"Deployments {expected}"
        incomplete = next((name for name, each in found.items() if not _is_complete(each)), "")
        if incomplete:
            return f"{incomplete} is incomplete"
        return "" if _is_remembered(found[NAME]) else "the revision is not yet remembered as good"

    def _pods_lack(self, wanted: Wanted) -> str:
        pods = self.place.api.items(CHILDREN["Pod"].format(self.namespace))
        if len(pods) != wanted.replicas:
            return f"{wanted.replicas} pods, there are {len(pods)}"
        launches = {pod["metadata"]["annotations"].get("outrider.dev/launch", "") for pod in pods}
        expected = {wanted.launch} | ({"no-drafter"} if wanted.canary else set())
        if launches != expected:
            return f"pods of the launch {expected}, there are {launches}"
        if any(wanted.scratch not in str(pod["spec"]["containers"][0]) for pod in pods):
            return f"pods with {wanted.scratch}"
        return ""

    def _engines_lack(self, wanted: Wanted) -> str:
        serving = self.history.serving
        if len(serving) != wanted.replicas:
            return f"{wanted.replicas} engines, there are {len(serving)}"
        if wanted.k is None:
            return ""
        as_wanted = sum(
            engine.source == "Pushed" and engine.schedule == [{"numSpeculativeTokens": wanted.k}]
            for engine in serving.values()
        )
        if as_wanted < wanted.replicas - wanted.canary:
            return f"K={wanted.k} of all engines, {as_wanted} have it"
        return ""


def _is_ours(kind: str, found: Object) -> bool:
    name = found["metadata"]["name"]
    return (kind, name) not in {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}


def _is_complete(deployment: Object) -> bool:
    spec, status = deployment["spec"], deployment.get("status", {})
    counts = {status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")}
    seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
    return seen and counts == {spec["replicas"]}


def _is_remembered(deployment: Object) -> bool:
    """Whether it names its revision as good, which is the operator's last write after a rollout."""
    good = Memory.of(deployment["metadata"].get("annotations", {})).good
    revision = deployment["spec"]["template"]["metadata"]["labels"][REVISION_LABEL]
    return good is not None and good.revision == revision


@contextmanager
def a_life(place: Place, namespace: str, settings: Mapping[str, str] = SETTINGS) -> Iterator[Life]:
    """In the block its operator may run, in an empty namespace."""
    place.create_namespace(namespace)
    log = place.server.folder / f"{namespace}.log"
    kills: list[Callable[[], None]] = []

    def kill() -> None:
        for each in kills:
            each()

    with a_proxy(place.loop, place.url, kill) as proxy:
        environment = {
            **place.server.environment,
            **settings,
            "KUBECONFIG": str(place.server.kubeconfig(namespace, port=proxy.port, scheme="http")),
            "OUTRIDER_HTTP_PORT": str(free_port()),
            "OUTRIDER_LEASE_NAMESPACE": namespace,
            "OUTRIDER_WATCH_NAMESPACES": namespace,
        }
        operator = WarmOperator(environment, log)
        kills.append(operator.kill)
        life = Life(place, namespace, proxy, place.gate_of_engines(namespace, kill), operator)
        try:
            yield life
        finally:
            life.client.end()
            operator.stop()


@contextmanager
def another_operator(life: Life) -> Iterator[WarmOperator]:
    """In the block a second one with the same settings runs, behind the same proxy."""
    environment = {**life.operator.environment, "OUTRIDER_HTTP_PORT": str(free_port())}
    operator = WarmOperator(environment, life.place.server.folder / f"{life.namespace}-second.log")
    operator.start()
    try:
        yield operator
    finally:
        operator.stop()
