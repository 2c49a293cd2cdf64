"""The tuner's launch order, in a ConfigMap that the reconciler reads and carries out."""

from __future__ import annotations

from outrider.api.launch import ADAPTIVE, ANNOTATION, LaunchOrder
from outrider.api.reasons import DegradedReason
from outrider.cluster.objects import Pod, launch_failure
from outrider.cluster.ownership import Owner, Ownership, ownership
from outrider.cluster.resources import CONFIG_MAPS
from outrider.controller.store import Store
from outrider.controller.stored import Key, launch_config_map
from outrider.plan.names import CONTAINER


def trial_refusal(pod: Pod) -> str:
    """Why a pod ended that the tuner launched with adaptive verification; "" if it did not refuse it."""
    engine = pod.container(CONTAINER)
    if engine is None or pod.metadata.annotations.get(ANNOTATION) != ADAPTIVE:
        return ""
    failure = launch_failure(engine.last_end)
    refused = failure is not None and failure[0] == DegradedReason.VERIFICATION_UNAVAILABLE
    return failure[1] if failure is not None and refused else ""


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
