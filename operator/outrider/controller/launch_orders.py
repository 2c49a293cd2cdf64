"""The tuner's launch order, in a ConfigMap that the reconciler reads and carries out."""

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
    """A store for launch orders, which the reconciler carries out."""

    async def order(self, model: TunedModel, order: LaunchOrder) -> None:
        """Store an order. The same order again is not written.

        Raises:
            ClusterError: not stored; the order before remains.
        """
        ...


class ClusterLaunchOrders:
    """`LaunchOrders` over the API server.

    An order is one write, so a crash leaves the old or the new one. To end an order, the default order is
    written into the same object; nothing is deleted, so no deletion can be missed.
    changed: called with the model after a write, because the watch reports no state that is already known.
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
    """The stored order of a model; the default without one, or if the object belongs to another owner.

    Raises:
        ValueError: it cannot be parsed; the message has the cause and what to do.
    """
    name = launch_config_map(owner.name)
    stored = store.children[CONFIG_MAPS].get(Key(owner.namespace, name))
    if stored is None or ownership(stored.child, owner) is not Ownership.OURS:
        return LaunchOrder()
    try:
        return LaunchOrder.from_data(stored.data)
    except ValueError as error:
        raise ValueError(
            f"Outrider launches engines as the spec says, because the ConfigMap {owner.namespace}/{name} "
            f"cannot be parsed: {error}. To change it, delete the ConfigMap."
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
