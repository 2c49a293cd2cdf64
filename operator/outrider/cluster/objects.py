"""The fields of Deployments, Pods and children that the operator reads; it drops all others."""

from __future__ import annotations

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from outrider.api.text import whole_number
from outrider.foreign import read_as
from outrider.foreign.readers import LAST_WORDS

_NEWEST_VERSION = 2**64 - 1
"""Largest resource version."""


def version_number(resource_version: str) -> int | None:
    """The number of a resource version, which orders the states of one object; None for other text."""
    return whole_number(resource_version, most=_NEWEST_VERSION)


class _View(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)


class OwnerReference(_View):
    """Owner reference of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ManagedFields(_View):
    """A field manager, which applied or updated fields of an object."""

    manager: str = ""
    operation: str = ""


class Metadata(_View):
    """Identity of an object."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    creation_timestamp: AwareDatetime | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    managed_fields: tuple[ManagedFields, ...] = ()

    @property
    def version(self) -> int:
        """The resource version as a number, which orders the states of one object."""
        return version_number(self.resource_version) or 0


class StatusCondition(_View):
    """A condition of a Deployment or a Pod."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: AwareDatetime | None = None

    @property
    def holds(self) -> bool:
        """The condition is True."""
        return self.status == "True"


class TemplateMetadata(_View):
    """Metadata of a pod template."""

    labels: dict[str, str] = Field(default_factory=dict)


class PodTemplate(_View):
    """Template of a Deployment's pods."""

    metadata: TemplateMetadata = TemplateMetadata()


class DeploymentSpec(_View):
    """Wanted pods."""

    replicas: int = 1
    template: PodTemplate = PodTemplate()


class DeploymentStatus(_View):
    """Observed scale."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[StatusCondition, ...] = ()


class Deployment(_View):
    """The engine's Deployment."""

    metadata: Metadata
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def complete(self) -> bool:
        """True if it wants at least one pod, and all pods run its current template and are available."""
        wanted, status = self.spec.replicas, self.status
        counts = (status.replicas, status.updated_replicas, status.available_replicas)
        return (
            status.observed_generation >= self.metadata.generation and counts == (wanted,) * 3 and wanted > 0
        )

    @property
    def conditions(self) -> tuple[StatusCondition, ...]:
        """True if no pod of an older spec is left."""
        seen = self.status.observed_generation >= self.metadata.generation
        return self.status.conditions if seen else ()


class LeaderWorkerSetStatus(_View):
    """Observed groups."""

    conditions: tuple[StatusCondition, ...] = ()


class LeaderWorkerSet(_View):
    """The LeaderWorkerSet of an engine that runs on several nodes."""

    metadata: Metadata
    status: LeaderWorkerSetStatus = LeaderWorkerSetStatus()


class PoolParentReference(_View):
    """Object that uses an InferencePool, by default a Gateway."""

    kind: str = "Gateway"
    name: str = ""


class PoolParent(_View):
    """An InferencePool as one gateway sees it."""

    parent_ref: PoolParentReference = PoolParentReference()
    conditions: tuple[StatusCondition, ...] = ()


class InferencePoolStatus(_View):
    """Answers of gateways."""

    parents: tuple[PoolParent, ...] = ()


class InferencePool(_View):
    """The InferencePool of a model."""

    status: InferencePoolStatus = InferencePoolStatus()


class Waiting(_View):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class Terminated(_View):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(_View):
    """State of a container; at most one field is set if the container does not run."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(_View):
    """One container of a pod."""

    name: str
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()

    @property
    def last_end(self) -> Terminated | None:
        """Its most recent termination, or None."""
        return self.state.terminated or self.last_state.terminated


class ContainerPort(_View):
    """A named port of a container."""

    name: str = ""
    container_port: int


class Resources(_View):
    """Resource requests of a container, as quantities."""

    requests: dict[str, str] = Field(default_factory=dict)


class Container(_View):
    """A container in the pod's spec."""

    name: str
    resources: Resources = Resources()
    ports: tuple[ContainerPort, ...] = ()


class PodSpec(_View):
    """Spec of a pod."""

    containers: tuple[Container, ...] = ()


class PodStatus(_View):
    """Observed state of a pod."""

    phase: str = ""
    ip: str = Field(default="", alias="podIP")
    conditions: tuple[StatusCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(_View):
    """An engine pod."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def ready(self) -> bool:
        """True if the pod takes traffic: its Ready condition is True and it is not being deleted."""
        condition = self.condition("Ready")
        return self.metadata.deletion_timestamp is None and condition is not None and condition.holds

    def condition(self, kind: str) -> StatusCondition | None:
        """Return one condition, or None."""
        return next((condition for condition in self.status.conditions if condition.type == kind), None)

    def container(self, name: str) -> ContainerStatus | None:
        """Return the status of one container, or None."""
        return next((c for c in self.status.container_statuses if c.name == name), None)

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """Why its containers do not run yet; init containers come first."""
        statuses = self.status.init_container_statuses + self.status.container_statuses
        states = (status.state.waiting for status in statuses)
        return tuple(waiting for waiting in states if waiting is not None)

    def port(self, container: str | None, name: str) -> int | None:
        """Return the number of a named container port, or None. container: None for any."""
        return next(
            (
                p.container_port
                for c in self.spec.containers
                if container in (None, c.name)
                for p in c.ports
                if p.name == name
            ),
            None,
        )


class Child(_View):
    """An object that the operator created, or one of the same name."""

    api_version: str
    kind: str
    metadata: Metadata


class _LaunchFailure(BaseModel):
    model_config = ConfigDict(extra="ignore")
    reason: str
    message: str = ""


_LAUNCH_FAILURE = TypeAdapter(_LaunchFailure)


def launch_failure(terminated: Terminated | None) -> tuple[str, str] | None:
    """Return reason and message of the engine's launcher after it refused to start.

    The launcher writes one JSON object. A crash leaves log lines instead, which give None.
    """
    if terminated is None or not terminated.message.startswith("{"):
        return None
    try:
        failure = read_as(LAST_WORDS, terminated.message, _LAUNCH_FAILURE)
    except ValueError:
        return None
    return failure.reason, failure.message
