"""The tuner's launch order, in a ConfigMap that the reconciler reads and carries out."""

from __future__ import annotations

from outrider.api.launch import LaunchOrder
from outrider.cluster.ownership import Owner, Ownership, ownership
from outrider.cluster.resources import CONFIG_MAPS
from outrider.controller.store import Store
from outrider.controller.stored import Key, launch_config_map


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
