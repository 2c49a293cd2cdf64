"""Selection of children that the plan no longer contains."""

from __future__ import annotations

from collections.abc import Iterable

from outrider.cluster.objects import Child
from outrider.cluster.ownership import Owner
from outrider.cluster.resources import JsonObject


def unwanted(children: Iterable[Child], wanted: Iterable[JsonObject], owner: Owner) -> list[Child]:
    """Return the children of ``owner`` that ``wanted`` does not name.

    A child must have a controlling owner reference with the owner's UID. A label alone does not
    justify a deletion.
    """
    keep = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in wanted}
    return [
        child
        for child in children
        if (child.kind, child.metadata.name) not in keep
        and any(ref.controller and ref.uid == owner.uid for ref in child.metadata.owner_references)
    ]
