"""Models that two installations of the operator watch.

The installation that manages them sets the condition Contested. The other one emits an Event only, because
two writers of one condition would overwrite each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from outrider.api.conditions import ConditionStatus, ConditionUpdate
from outrider.api.reasons import ContestReason, EventReason
from outrider.cluster.events import EventWriter
from outrider.cluster.installation import Installation
from outrider.cluster.ownership import Owner
from outrider.controller.fleet import Fleet, TunedModel
from outrider.controller.managed_namespaces import ManagedNamespaces
from outrider.controller.store import Key, Store

_REMEDY = "To change it, uninstall one of them, or give each its own watchNamespaces."


def contest(managed: ManagedNamespaces, namespace: str) -> tuple[ConditionUpdate, ...]:
    """The condition of models that other installations watch too; empty without another one."""
    homes = [other.namespace for other in managed.standing_by(namespace)]
    if not homes:
        return ()
    who = f"The operator in namespace {', '.join(homes)} also watches this namespace, on standby. {_REMEDY}"
    return (ConditionUpdate(ConditionStatus.TRUE, ContestReason.ON_STANDBY, who),)


class StandBy:
    """Reports once for each model which installation manages it. home: namespace of this one's Lease."""

    def __init__(self, events: EventWriter, store: Store, *, home: str) -> None:
        self._events = events
        self._store = store
        self._home = home
        self._told: dict[Key, str] = {}

    async def leave(self, key: Key, manager: Installation) -> None:
        """Leave a model to another operator."""
        stored = self._store.models.get(key)
        if stored is None:
            self._told.pop(key, None)
        elif self._told.get(key) != manager.namespace:
            self._told[key] = manager.namespace
            note = (
                f"The operator in namespace {manager.namespace} manages this model;"
                f" the one in {self._home} is on standby. {_REMEDY}"
            )
            owner = Owner(key.namespace, key.name, stored.metadata.uid)
            await self._events.emit(owner, EventReason.ON_STANDBY, note, severity="Warning")

    def take(self, key: Key) -> None:
        """Record that this installation manages the model."""
        self._told.pop(key, None)


class OwnFleet:
    """The part of a fleet that this installation manages."""

    def __init__(self, fleet: Fleet, managed: Callable[[], ManagedNamespaces]) -> None:
        self._fleet = fleet
        self._managed = managed

    def tuned_models(self) -> Sequence[TunedModel]:
        """Models that no other operator manages."""
        managed = self._managed()
        return [
            model for model in self._fleet.tuned_models() if managed.other_manager(model.namespace) is None
        ]

    def tuned_model(self, key: Key) -> TunedModel | None:
        """See `Fleet.tuned_model`."""
        managed = self._managed().other_manager(key.namespace) is None
        return self._fleet.tuned_model(key) if managed else None
