"""The evidence about a cluster. A part may be missing, since the caller may have few rights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from outrider.api.resource import SpeculativeModel
from outrider.cli.doctor.launch_evidence import Place
from outrider.cluster.installation import Installation
from outrider.cluster.resources import JsonObject
from outrider.controller.settings import Settings


@dataclass(frozen=True, slots=True)
class Unseen:
    """A part that the caller may not read, and why."""

    why: str


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
    missing_of_operator: Mapping[str, tuple[Right, ...]] | Unseen  # by namespace, empty for all
    metrics: Metrics | Silent | Unseen | None  # None: the operator asks the pods itself
    engines: tuple[EnginePod, ...] | Unseen
    offered: Mapping[str, int] | Unseen  # extended resources of all nodes
    wanted: Mapping[str, int] | Unseen  # the same, of all models
    place: Place | Unseen
    clocks: tuple[NodeClock, ...] | Unseen
    models: tuple[SpeculativeModel, ...] | Unseen = ()  # those that can be read
