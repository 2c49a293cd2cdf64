"""The evidence about nodes, and about what engine pods ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
