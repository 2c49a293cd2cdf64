"""Tuner state in a ConfigMap beside the model. It goes with its owner; reconcile leaves it alone."""

from __future__ import annotations

from outrider.cluster.client import ClusterClient
from outrider.cluster.objects import Child
from outrider.cluster.ownership import TUNER_MANAGER, Ownership, name_taken, ownership
from outrider.cluster.resources import CONFIG_MAPS
from outrider.controller.children import Children
from outrider.controller.fleet import TunedModel
from outrider.controller.store import Store, state_config_map
from outrider.controller.tuner_objects import config_map, owner_of

STATE_KEY = "state.json"


class ClusterStateShelf:
    """`StateShelf` over the API server."""

    def __init__(self, cluster: ClusterClient, store: Store) -> None:
        self._cluster = cluster
        self._children = Children(cluster, store, manager=TUNER_MANAGER)

    async def read(self, model: TunedModel) -> str | None:
        """See `StateShelf.read`."""
        name = state_config_map(model.name)
        live = await self._cluster.get(CONFIG_MAPS, model.namespace, name)
        if live is None:
            return None
        child, owner = Child.model_validate(live), owner_of(model)
        match ownership(child, owner):
            case Ownership.OURS:
                return str((live.get("data") or {}).get(STATE_KEY, ""))
            case Ownership.PREDECESSORS:
                return None
            case Ownership.FOREIGN:
                raise name_taken(child, owner)

    async def write(self, model: TunedModel, text: str) -> None:
        """See `StateShelf.write`."""
        manifest = config_map(model, state_config_map(model.name), {STATE_KEY: text})
        await self._children.apply(owner_of(model), [manifest])
