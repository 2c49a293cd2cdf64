"""Tuner state in a ConfigMap beside the model. It goes with its owner; reconcile leaves it alone.

Only an object that was seen can have been deleted: its UID is remembered, and another one in its place, or
none, is a deletion. One that never was, and a write that failed, are none.
"""

from __future__ import annotations

from outrider.cluster.client import ClusterClient
from outrider.cluster.objects import Child
from outrider.cluster.ownership import TUNER_MANAGER, Ownership, name_taken, ownership
from outrider.cluster.resources import CONFIG_MAPS
from outrider.controller.children import Children
from outrider.controller.store import Key, Store, state_config_map
from outrider.controller.tune.fleet import StateDeleted, TunedModel
from outrider.controller.tuner_objects import config_map, owner_of

STATE_KEY = "state.json"


class ClusterStateShelf:
    """`StateShelf` over the API server."""

    def __init__(self, cluster: ClusterClient, store: Store) -> None:
        self._cluster = cluster
        self._store = store
        self._children = Children(cluster, store, manager=TUNER_MANAGER)
        self._seen: dict[str, str] = {}  # UID of a model to that of its ConfigMap

    async def read(self, model: TunedModel) -> str | None:
        """See `StateShelf.read`."""
        name = state_config_map(model.name)
        live = await self._cluster.get(CONFIG_MAPS, model.namespace, name)
        self._seen.pop(model.uid, None)
        if live is None:
            return None
        child, owner = Child.model_validate(live), owner_of(model)
        match ownership(child, owner):
            case Ownership.OURS:
                self._seen[model.uid] = child.metadata.uid
                return str((live.get("data") or {}).get(STATE_KEY, ""))
            case Ownership.PREDECESSORS:
                return None
            case Ownership.FOREIGN:
                raise name_taken(child, owner)

    async def write(self, model: TunedModel, text: str) -> None:
        """See `StateShelf.write`."""
        if await self._was_deleted(model):
            del self._seen[model.uid]
            raise StateDeleted
        manifest = config_map(model, state_config_map(model.name), {STATE_KEY: text})
        await self._children.apply(owner_of(model), [manifest])
        before, now = self._seen.get(model.uid), self._watched(model)
        if now is not None:
            self._seen[model.uid] = now
            if before not in (None, now):
                raise StateDeleted  # just before this write, which made another one

    async def _was_deleted(self, model: TunedModel) -> bool:
        seen = self._seen.get(model.uid)
        if seen is None or self._watched(model) == seen:
            return False
        # The watch finds it by a label, which somebody may have taken away.
        live = await self._cluster.get(CONFIG_MAPS, model.namespace, state_config_map(model.name))
        return live is None or Child.model_validate(live).metadata.uid != seen

    def _watched(self, model: TunedModel) -> str | None:
        """UID of the ConfigMap, as far as the watch has told."""
        key = Key(model.namespace, state_config_map(model.name))
        stored = self._store.children[CONFIG_MAPS].get(key)
        return None if stored is None else stored.metadata.uid
