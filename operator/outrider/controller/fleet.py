"""The models that are tuned, as both wings see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from outrider.api.annotations import Instructions
from outrider.api.launch import Launch, LaunchLimits, LaunchOrder
from outrider.api.schedule import Schedule
from outrider.api.speculation import TuningMode
from outrider.api.status import Status
from outrider.cluster.ownership import Owner
from outrider.controller.store import Key
from outrider.engine.client import EngineAddress
from outrider.tuning.policy import Policy
from outrider.tuning.relaunch.rules import Relaunching


@dataclass(frozen=True, slots=True)
class EnginePod:
    """A ready pod that serves a model."""

    name: str
    address: EngineAddress
    launch: Launch = field(default_factory=Launch)
    """How it was started."""
    canary: bool = False
    """Started without speculation, to be measured against."""
    revision: str = ""
    """Of its launch: pods of the same one run the same engine."""

    @property
    def drafts(self) -> bool:
        """It has a drafter, so it can take tables."""
        return self.launch.drafter and not self.canary


@dataclass(frozen=True, slots=True)
class TunedModel:
    """A model whose engines have a table, as it stands at the start of a tick."""

    namespace: str
    name: str
    uid: str
    generation: int
    mode: TuningMode
    static: Schedule
    policy: Policy
    status: Status
    """As last seen; only a fresh process reads it, to go on where another one stopped."""
    pods: tuple[EnginePod, ...]
    """The ready ones."""
    max_num_seqs: int | None = None
    """Largest batch of an engine, where the user set one."""
    max_num_batched_tokens: int | None = None
    """Token budget of one engine step, where the user set one."""
    instructions: Instructions = field(default_factory=Instructions)
    """What a person says by annotations."""
    coming: tuple[EnginePod, ...] = ()
    """Those that have an address and are not ready."""
    replicas: int = 1
    """Pods that are wanted."""
    ranks: int = 1
    """Data-parallel ones of an engine: each has batches of its own."""
    relaunching: Relaunching = field(default_factory=Relaunching)
    """What the tuner may do to the launch of the engines."""
    stored_order: LaunchOrder = field(default_factory=LaunchOrder)
    """What the tuner ordered last, allowed or not."""
    searches_text: bool = False
    """Drafts come from the text so far (n-gram, suffix), not from a model."""
    returned_table: Schedule | None = None
    """The static table of the last good revision, where it serves since the rollout of the spec failed."""

    @property
    def owner(self) -> Owner:
        """The model as the owner of objects."""
        return Owner(self.namespace, self.name, self.uid)

    @property
    def order(self) -> LaunchOrder:
        """The part of it that holds."""
        return self.limits.effective(self.stored_order)

    @property
    def limits(self) -> LaunchLimits:
        """What the spec allows of an order."""
        return LaunchLimits(
            mode=self.mode,
            actuation=self.relaunching.actuation,
            structural_off=self.relaunching.structural_off,
            canary=self.relaunching.canary,
            candidates=self.policy.candidates,
            replicas=self.replicas,
            one_k=self.relaunching.one_k,
        )


class Fleet(Protocol):
    """The models of this moment. Costs no API call."""

    def tuned_models(self) -> Sequence[TunedModel]:
        """Every model with a live table, whether or not it has ready pods."""
        ...

    def tuned_model(self, key: Key) -> TunedModel | None:
        """One of them; None where it has no live table, or is not there."""
        ...
