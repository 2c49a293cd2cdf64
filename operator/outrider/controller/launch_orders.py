"""The tuner's order about the launch of engines, in a ConfigMap that reconcile reads and carries out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from outrider.api.launch import LaunchOrder
from outrider.cluster.client import ClusterClient
from outrider.cluster.ownership import TUNER_MANAGER, Owner, Ownership, ownership
from outrider.cluster.resources import CONFIG_MAPS, JsonObject
from outrider.controller.children import Children
from outrider.controller.fleet import TunedModel
from outrider.controller.store import Key, Store, launch_config_map
from outrider.plan.children import owner_reference
from outrider.plan.names import labels


class LaunchOrders(Protocol):
    """Where orders about the launch of engines go; reconcile carries them out."""

    async def order(self, model: TunedModel, order: LaunchOrder) -> None:
        """Store an order; where the same one is stored already, nothing happens.

        Raises:
            ClusterError: not stored; the order before stands.
        """
        ...


class ClusterLaunchOrders:
    """`LaunchOrders` over the API server.

    An order is one write, so a crash leaves the one before or the new one. The way back is the default
    order in the same object: nothing is deleted, so nothing can be missed.
    changed: called with the model after a write; the watch does not tell of what is known already.
    """

    def __init__(self, cluster: ClusterClient, store: Store, changed: Callable[[Key], None]) -> None:
        self._store = store
        self._changed = changed
        self._children = Children(cluster, store, manager=TUNER_MANAGER)

    async def order(self, model: TunedModel, order: LaunchOrder) -> None:
        """See `LaunchOrders.order`."""
        if self._stands(model, order):
            return
        manifest = config_map(model, launch_config_map(model.name), order.to_data())
        await self._children.apply(model.owner, [manifest])
        self._changed(Key(model.namespace, model.name))

    def _stands(self, model: TunedModel, order: LaunchOrder) -> bool:
        try:
            return read_order(self._store, model.owner) == order
        except ValueError:
            return False


def read_order(store: Store, owner: Owner) -> LaunchOrder:
    """The order that is stored for a model; the default without one. Somebody else's object is none.

    Raises:
        ValueError: it is unreadable; the message says what is wrong and what to do.
    """
    name = launch_config_map(owner.name)
    stored = store.children[CONFIG_MAPS].get(Key(owner.namespace, name))
    if stored is None or ownership(stored.child, owner) is not Ownership.OURS:
        return LaunchOrder()
    try:
        return LaunchOrder.from_data(stored.data)
    except ValueError as error:
        raise ValueError(
            f"ConfigMap {owner.namespace}/{name} is unreadable, so engines are launched as the spec says; "
            f"delete it: {error}"
        ) from error


def config_map(model: TunedModel, name: str, data: Mapping[str, str]) -> JsonObject:
    """The manifest of a ConfigMap that belongs to the model."""
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {
            "name": name,
            "namespace": model.namespace,
            "labels": labels(model.name),
            "ownerReferences": [owner_reference(model.name, model.uid)],
        },
        "data": dict(data),
    }
