"""Ownership of an object that has a child's name. The operator checks it before it writes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from outrider.api.conditions import Manager
from outrider.cluster.errors import NameTaken
from outrider.cluster.objects import Child, OwnerReference
from outrider.cluster.resources import MODELS

MANAGER = Manager.RECONCILER.value
"""Field manager of the children and of the part of status that reconcile owns."""
TUNER_MANAGER = Manager.TUNER.value
"""Field manager of the tuning loop's part of status and of its state."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The SpeculativeModel that children belong to."""

    namespace: str
    name: str
    uid: str


class Ownership(Enum):
    """Relation of an existing object to a model."""

    OURS = "ours"
    """Owned by this model, or created by Outrider and without an owner reference."""
    PREDECESSORS = "predecessor's"
    """Left by a deleted model of the same name; the garbage collector will delete it."""
    FOREIGN = "foreign"
    """An object of another owner; the operator does not change it."""


def ownership(child: Child, owner: Owner) -> Ownership:
    """Classify by the controlling owner reference first, then by the field managers."""
    controller = _controller(child)
    if controller is None:
        applied = any(entry.manager in (MANAGER, TUNER_MANAGER) for entry in child.metadata.managed_fields)
        return Ownership.OURS if applied else Ownership.FOREIGN
    if controller.uid == owner.uid:
        return Ownership.OURS
    same_name = controller.kind == MODELS.kind and controller.name == owner.name
    return Ownership.PREDECESSORS if same_name else Ownership.FOREIGN


def name_taken(child: Child, owner: Owner) -> NameTaken:
    """Return the error about an object of another owner; it names the owner and what to do."""
    name, holder = f"{child.kind} {owner.namespace}/{child.metadata.name}", _controller(child)
    if holder is None:
        return NameTaken(f"{name} exists and does not belong to this model. {NameTaken.action}")
    return NameTaken(
        f"{name} exists and does not belong to this model but to {holder.kind} {holder.name}. "
        "Rename one of the two."
    )


def _controller(child: Child) -> OwnerReference | None:
    return next((ref for ref in child.metadata.owner_references if ref.controller), None)
