"""The tuning loop's access to the API server: status, Events, launch orders, and the stored tuner state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from outrider.api.launch import LaunchOrder
from outrider.api.reasons import EventReason
from outrider.cluster.client import ClusterClient
from outrider.cluster.events import EventWriter
from outrider.cluster.objects import Child
from outrider.cluster.ownership import TUNER_MANAGER, Ownership, name_taken, ownership
from outrider.cluster.resources import CONFIG_MAPS
from outrider.controller.children import Children
from outrider.controller.fleet import TunedModel
from outrider.controller.launch_orders import read_order
from outrider.controller.store import Store
from outrider.controller.stored import Key, launch_config_map, state_config_map
from outrider.controller.watch import WriteThroughStore
from outrider.plan.children import owner_reference
from outrider.plan.names import labels

STATE_KEY = "state.json"


class StateDeleted(Exception):
    """The stored tuner state was deleted."""


class ApiServer(Protocol):
    """What the tuning loop reads and writes. Each method raises `ClusterError` if it fails, but `event`."""

    async def apply_status(self, model: TunedModel, part: dict[str, object]) -> None:
        """Write the tuning loop's part of status."""
        ...

    async def event(self, model: TunedModel, reason: EventReason, note: str) -> None:
        """Write one Event; a failed write is logged and not repeated."""
        ...

    async def order(self, model: TunedModel, order: LaunchOrder) -> None:
        """Store a launch order, which the reconciler carries out. The same order again is not written."""
        ...

    async def read_state(self, model: TunedModel) -> str | None:
        """The tuner state that was written last; None without one.

        Raises:
            NameTaken: the ConfigMap belongs to another owner.
        """
        ...

    async def write_state(self, model: TunedModel, text: str) -> None:
        """Store the tuner state. The same text again is not written.

        Raises:
            StateDeleted: the object that was read or written last is gone; the next write creates another
            one.
        """
        ...


class ClusterApiServer:
    """`ApiServer` over Kubernetes.

    A launch order is one write, so a crash leaves the old or the new one. To end an order, the default order
    is written into the same object; nothing is deleted, so no deletion can be missed.

    A deletion of the tuner state counts only for an object that was seen, so this class keeps its UID.
    Garbage collection deletes the object with its owner, and the reconciler does not touch it.

    on_external_change: called with a model whose answer to a write contained a user's change.
    on_order: called with the model after an order, because the watch reports no state that is already known.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        store: Store,
        *,
        on_external_change: Callable[[Key], None] = lambda _: None,
        on_order: Callable[[Key], None] = lambda _: None,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._answers = WriteThroughStore(store, on_external_change)
        self._on_order = on_order
        self._events = EventWriter(cluster)
        self._children = Children(cluster, store, manager=TUNER_MANAGER)
        self._seen: dict[str, str] = {}  # by the UID of a model, that of the ConfigMap with its state

    async def apply_status(self, model: TunedModel, part: dict[str, object]) -> None:
        """Write the tuning loop's part of status, and keep the answer."""
        answer = await self._cluster.apply_status(model.namespace, model.name, part, manager=TUNER_MANAGER)
        self._answers.keep(answer, model.key)

    async def event(self, model: TunedModel, reason: EventReason, note: str) -> None:
        """Write one Event about the model."""
        await self._events.emit(model.owner, reason, note, action="Tune")

    async def order(self, model: TunedModel, order: LaunchOrder) -> None:
        """See `ApiServer.order`."""
        try:
            if read_order(self._store, model.owner) == order:
                return
        except ValueError:
            pass  # it cannot be parsed, so this write replaces it
        await self._apply_config_map(model, launch_config_map(model.name), order.to_data())
        self._on_order(model.key)

    async def read_state(self, model: TunedModel) -> str | None:
        """See `ApiServer.read_state`."""
        live = await self._cluster.get(CONFIG_MAPS, model.namespace, state_config_map(model.name))
        self._seen.pop(model.uid, None)
        if live is None:
            return None
        child, owner = Child.model_validate(live), model.owner
        match ownership(child, owner):
            case Ownership.OURS:
                self._seen[model.uid] = child.metadata.uid
                return str((live.get("data") or {}).get(STATE_KEY, ""))
            case Ownership.PREDECESSORS:
                return None
            case Ownership.FOREIGN:
                raise name_taken(child, owner)

    async def write_state(self, model: TunedModel, text: str) -> None:
        """See `ApiServer.write_state`."""
        if await self._was_deleted(model):
            del self._seen[model.uid]
            raise StateDeleted
        await self._apply_config_map(model, state_config_map(model.name), {STATE_KEY: text})
        before, now = self._seen.get(model.uid), self._watched(model)
        if now is not None:
            self._seen[model.uid] = now
            if before not in (None, now):
                raise StateDeleted  # it was deleted just before this write, which created another one

    async def _was_deleted(self, model: TunedModel) -> bool:
        seen = self._seen.get(model.uid)
        if seen is None or self._watched(model) == seen:
            return False
        # The watch finds it by a label, which a user may have removed.
        live = await self._cluster.get(CONFIG_MAPS, model.namespace, state_config_map(model.name))
        return live is None or Child.model_validate(live).metadata.uid != seen

    def _watched(self, model: TunedModel) -> str | None:
        """UID of the ConfigMap by the watch; None if the watch has none."""
        stored = self._store.children[CONFIG_MAPS].get(Key(model.namespace, state_config_map(model.name)))
        return None if stored is None else stored.metadata.uid

    async def _apply_config_map(self, model: TunedModel, name: str, data: dict[str, str]) -> None:
        metadata = {
            "name": name,
            "namespace": model.namespace,
            "labels": labels(model.name),
            "ownerReferences": [owner_reference(model.name, model.uid)],
        }
        manifest = {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": CONFIG_MAPS.kind,
            "metadata": metadata,
            "data": data,
        }
        await self._children.apply(model.owner, [manifest])
