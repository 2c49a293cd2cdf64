"""The evidence about a cluster, its nodes and its engine pods; a part may be unseen for lack of a right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic

from outrider.api.resource import SpeculativeModel
from outrider.cli.doctor.findings import PartT, Unseen
from outrider.cluster.installation import Installation
from outrider.cluster.resources import JsonObject
from outrider.controller.settings import LeaderElection, Settings


class CannotLook(Exception):
    """A part cannot be looked at; the message says why."""


@dataclass(frozen=True, slots=True)
class Silent:
    """Something that should answer and does not, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Operator:
    """A Deployment of the operator."""

    namespace: str
    name: str
    version: str
    ready: int
    wanted: int
    settings: Settings | Unseen

    @property
    def title(self) -> str:
        """Namespace and name, for people."""
        return f"{self.namespace}/{self.name}"

    @property
    def elects(self) -> bool:
        """Whether the operator leads by a Lease; unless its settings say otherwise, it does."""
        return isinstance(self.settings, Unseen) or self.settings.leader_election is LeaderElection.ON

    @property
    def lease_namespace(self) -> str:
        """Namespace of its Leases; where no setting has it, this machine's default is not the operator's."""
        if isinstance(self.settings, Unseen) or "lease_namespace" not in self.settings.model_fields_set:
            return self.namespace
        return self.settings.lease_namespace

    def covers(self, namespace: str) -> bool:
        """Whether the operator watches the models of this namespace."""
        watched = () if isinstance(self.settings, Unseen) else self.settings.watch_namespaces
        return not watched or namespace in watched


@dataclass(frozen=True, slots=True)
class OfOperator(Generic[PartT]):
    """One part of one operator."""

    operator: Operator
    seen: PartT | Unseen


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one kind. needed_for: the commands that need it."""

    group: str
    resource: str  # with its subresource: pods/portforward
    verb: str
    needed_for: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """An engine pod as Prometheus knows it; a missing label is empty."""

    namespace: str
    pod: str
    model: str
    job: str


@dataclass(frozen=True, slots=True)
class Metrics:
    """The series of engines in Prometheus."""

    targets: frozenset[Target]
    samples_per_minute: Mapping[tuple[str, str], float]  # by namespace and pod
    live_tuning: Mapping[tuple[str, str], bool]  # the same; absent without the plugin


@dataclass(frozen=True, slots=True)
class EnginePod:
    """A ready pod of a model. live: its schedule is meant to change while it runs."""

    namespace: str
    name: str
    model: str
    live: bool


@dataclass(frozen=True, slots=True)
class NodeClock:
    """The time at which a kubelet wrote its Lease: by its own clock, and by the API server's."""

    node: str
    own: datetime
    server: datetime  # whole seconds


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that was read, at one time of this machine's clock."""

    now: datetime
    crd: JsonObject | Unseen | None  # None: there is none
    operators: tuple[Operator, ...] | Unseen
    terms: tuple[Installation, ...] | Unseen
    missing_of_caller: tuple[Right, ...] | Unseen
    missing_of_operators: tuple[OfOperator[Mapping[str, tuple[Right, ...]]], ...] | Unseen
    """By namespace, empty for all."""
    metrics: tuple[OfOperator[Metrics | Silent | None], ...] | Unseen
    """None: the operator asks the pods itself."""
    engines: tuple[EnginePod, ...] | Unseen
    offered: Mapping[str, int] | Unseen  # extended resources of all nodes
    wanted: Mapping[str, int] | Unseen  # the same, of all models
    place: Place | Unseen
    clocks: tuple[NodeClock, ...] | Unseen
    models: tuple[SpeculativeModel, ...] | Unseen = ()  # those that can be read


@dataclass(frozen=True, slots=True)
class Taint:
    """One taint that keeps pods away: effect NoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """One toleration of a pod; an empty key, value or effect matches every one."""

    key: str
    operator: str
    value: str
    effect: str

    def covers(self, taint: Taint) -> bool:
        """Decide as the scheduler does."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (self.key != "" and self.value == taint.value)


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node with GPUs, by its allocatable resources or by the labels of the vendor's feature discovery."""

    name: str
    allocatable: Mapping[str, int]  # extended resources
    architecture: str  # such as amd64
    driver: int | None  # major version of NVIDIA's driver; None where no label has it
    taints: tuple[Taint, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """The needs of the engine pods of one model, and how they are updated."""

    namespace: str
    model: str
    gpus: Mapping[str, int]  # of one pod, by extended resource
    replicas: int
    surges: bool  # an update starts a new pod before it ends an old one
    tolerations: tuple[Toleration, ...]
    runtime_class: str | None
    user: int | None  # that the pod asks for; None: the platform's
    pull_secrets: tuple[str, ...]
    version: str  # of vLLM
    downloads: bool  # every start of a pod downloads the weights
    deadline_seconds: float
    scheduled: bool  # a pod of it has a node; some clusters add tolerations that no template shows

    @property
    def name(self) -> str:
        """Namespace and name, for people."""
        return f"{self.namespace}/{self.model}"


@dataclass(frozen=True, slots=True)
class Place:
    """Everything about nodes, pods and add-ons that decides whether engine pods can start."""

    nodes: tuple[GpuNode, ...]
    launches: tuple[Launch, ...]
    runtime_classes: frozenset[str]
    openshift: bool
    missing_secrets: frozenset[tuple[str, str]]  # namespace and name; of pull secrets
    ignored_pod_monitors: tuple[str, ...]  # namespace/name, of Outrider's that no Prometheus selects
    refused: tuple[str, ...] = ()  # what the API server said where the caller may not look


def part(raw: JsonObject, *path: str) -> JsonObject:
    """The object at a path in an object of Kubernetes; empty where there is none."""
    for name in path:
        raw = raw.get(name) or {}
    return raw
