"""The tuned models, as reconciler and tuning loop see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from outrider.api.annotations import Instructions
from outrider.api.launch import DrafterTrial, Launch, LaunchOrder, RelaunchPolicy
from outrider.api.status import Status
from outrider.api.tuning import Actuation, TuningMode
from outrider.cluster.objects import Pod
from outrider.cluster.ownership import Owner
from outrider.controller.stored import Key
from outrider.engine.client import EngineAddress
from outrider.engine.signing import SigningKey
from outrider.plan.names import CONTROL_PORT_NAME
from outrider.runtimes.control import NO_CONTROL, EngineControl
from outrider.runtimes.metrics import MetricsDialect
from outrider.tuning.latency_targets import LatencyTargets
from outrider.tuning.policy import Policy
from outrider_protocol.schedule import Schedule


@dataclass(frozen=True, slots=True)
class EnginePod:
    """A ready pod that serves a model."""

    name: str
    address: EngineAddress
    launch: Launch = field(default_factory=Launch)  # its launch configuration
    canary: bool = False  # True for the pod of another launch, as the reference for measurements
    revision: str = ""  # revision of its launch; pods of the same revision run the same engine
    wanted_version: str | None = None  # vLLM's release in the spec; None for a pod that is not of this spec
    tried: bool = False  # True for a pod with a new drafter, while others may have the one before

    @property
    def drafts(self) -> bool:
        """True for a pod with a drafter, which takes schedules."""
        return self.launch.drafter

    @property
    def apart(self) -> bool:
        """True for a pod that is tuned apart from those of the other launch: adaptive, or a new drafter."""
        return self.launch.adaptive or self.tried


@dataclass(frozen=True, slots=True)
class TunedModel:
    """A model whose engines have a schedule, at the start of a tick."""

    namespace: str
    name: str
    uid: str
    generation: int
    mode: TuningMode
    static: Schedule
    policy: Policy
    status: Status
    """The stored status. Only a new process reads it, to continue after another one."""
    pods: tuple[EnginePod, ...]  # the ready pods
    metrics: MetricsDialect  # the metrics of its runtime
    control: EngineControl  # what running engines of its runtime can do
    max_num_seqs: int | None = None  # maximum batch size of an engine, if the user set it
    max_num_batched_tokens: int | None = None  # token budget of one engine step, if the user set it
    instructions: Instructions = field(default_factory=Instructions)
    """The user's instructions in annotations."""
    starting_pods: tuple[EnginePod, ...] = ()  # starting pods: with an address, and not ready
    targets: LatencyTargets = field(default_factory=LatencyTargets)
    """The user's limits of latencies."""
    replicas: int = 1  # number of wanted pods
    ranks: int = 1  # Data-parallel ranks of an engine; each has its own batches
    relaunching: RelaunchPolicy = field(default_factory=RelaunchPolicy)  # what the tuner may order
    stored_order: LaunchOrder = field(default_factory=LaunchOrder)
    """The last order of the tuner, whether it is allowed or not."""
    searches_text: bool = False  # whether drafts come from the text (n-gram, suffix) and not from a model
    moves_cache: bool = False  # whether its KV cache comes from other engines or places
    adaptive_refusal: str = ""
    """Why an engine ended that was to verify adaptively, in its words; "" if none did."""
    trial: DrafterTrial | None = None  # of the spec's drafter
    always_adaptive: bool = False  # engines verify adaptively without an order: `verification: Adaptive`
    returned_table: Schedule | None = None
    """The static schedule of the last good revision, if it serves because the rollout of the spec failed."""

    @property
    def can(self) -> EngineControl:
        """What its running engines can do: nothing if they are stock images."""
        return NO_CONTROL if self.relaunching.actuation is Actuation.ROLLOUT else self.control

    @property
    def drafting_pods(self) -> tuple[EnginePod, ...]:
        """The ready pods with a drafter."""
        return tuple(pod for pod in self.pods if pod.drafts)

    def pods_apart(self, *, apart: bool) -> tuple[EnginePod, ...]:
        """The ready pods with a drafter of one launch."""
        return tuple(pod for pod in self.drafting_pods if pod.apart is apart)

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.namespace, self.name)

    @property
    def owner(self) -> Owner:
        """The model as the owner of objects."""
        return Owner(self.namespace, self.name, self.uid)

    @property
    def order(self) -> LaunchOrder:
        """The part of the stored order that is allowed."""
        return self.effective(self.stored_order)

    def effective(self, order: LaunchOrder) -> LaunchOrder:
        """The part of an order that the spec allows."""
        candidates = self.policy.candidates
        return self.relaunching.effective(
            order, mode=self.mode, candidates=candidates, replicas=self.replicas
        )


def engine_address(
    pod: Pod, key: SigningKey, *, port: int | None, container: str | None = None
) -> EngineAddress | None:
    """The address of the engine in a pod; None before it has one.

    port: of its HTTP server. container: the one with the named port of the control API; None for any.
    """
    if not pod.status.ip or port is None:
        return None
    host = f"[{pod.status.ip}]" if ":" in pod.status.ip else pod.status.ip
    # The pod has the port, not the settings: older pods serve until they are replaced.
    control = pod.port(container, CONTROL_PORT_NAME)
    control_url = None if control is None else f"http://{host}:{control}"
    return EngineAddress(f"http://{host}:{port}", pod.metadata.uid, key, control_url)


class Fleet(Protocol):
    """The present models. Takes no API call."""

    def present(self) -> Sequence[Key]:
        """The present models by name, whether they can be tuned or not."""
        ...

    def tuned_models(self) -> Sequence[TunedModel]:
        """Every model that can be tuned and that this installation manages, with or without ready pods."""
        ...

    def tuned_model(self, key: Key) -> TunedModel | None:
        """One model; None if it cannot be tuned or does not exist."""
        ...
