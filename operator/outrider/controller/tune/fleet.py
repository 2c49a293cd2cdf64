"""What the tuning loop needs to know of each model, and where it reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from outrider.api.annotations import Instructions
from outrider.api.launch import LaunchLimits, LaunchOrder
from outrider.api.reasons import EventReason
from outrider.api.schedule import Schedule
from outrider.api.speculation import TuningMode
from outrider.api.status import Status
from outrider.controller.tune.actuation import EnginePod
from outrider.tuning.policy import Policy
from outrider.tuning.relaunch.rules import Relaunching


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
    max_num_batched_tokens: int | None = None
    """Token budget of one engine step, where the user set one."""
    instructions: Instructions = field(default_factory=Instructions)
    """What a person says by annotations."""
    coming: tuple[EnginePod, ...] = ()
    """Those that have an address and are not ready."""
    replicas: int = 1
    """Pods that are wanted."""
    relaunching: Relaunching = field(default_factory=Relaunching)
    """What the tuner may do to the launch of the engines."""
    stored_order: LaunchOrder = field(default_factory=LaunchOrder)
    """What the tuner ordered last, allowed or not."""

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
        )


class Fleet(Protocol):
    """The models of this moment. Costs no API call."""

    def tuned_models(self) -> Sequence[TunedModel]:
        """Every model with a live table, whether or not it has ready pods."""
        ...


class Reporter(Protocol):
    """Where a tick's outcome goes."""

    async def apply_status(self, model: TunedModel, part: dict[str, object]) -> None:
        """Write the tuning loop's part of status.

        Raises:
            ClusterError: not written; the next tick tries again.
        """
        ...

    async def event(self, model: TunedModel, reason: EventReason, note: str, *, warning: bool) -> None:
        """Write one Event; one that cannot be written is lost and logged."""
        ...


class LaunchOrders(Protocol):
    """Where orders about the launch of engines go; reconcile carries them out."""

    async def order(self, model: TunedModel, order: LaunchOrder) -> None:
        """Store an order; where the same one is stored already, nothing happens.

        Raises:
            ClusterError: not stored; the order before stands.
        """
        ...


class StateDeleted(Exception):
    """Somebody deleted what the tuner kept."""


class StateStore(Protocol):
    """Where what a tuner knows survives a restart."""

    async def read(self, model: TunedModel) -> str | None:
        """The text that was written last; None when there is none.

        Raises:
            NameTaken: its place belongs to somebody else.
            ClusterError: it cannot be read at present.
        """
        ...

    async def write(self, model: TunedModel, text: str) -> None:
        """Store a text; where the same one is stored already, nothing happens.

        Raises:
            StateDeleted: what was read or written last is gone; the next write stores anew.
            ClusterError: not stored.
        """
        ...
