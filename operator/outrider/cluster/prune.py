"""Children that are no longer wanted."""

from __future__ import annotations

from collections.abc import Iterable

from outrider.cluster.objects import Child
from outrider.cluster.ownership import Owner
from outrider.cluster.resources import JsonObject


def unwanted(children: Iterable[Child], wanted: Iterable[JsonObject], owner: Owner) -> list[Child]:
    """Those children of ``owner`` that ``wanted`` does not name.

    Only objects whose controlling owner reference has the owner's UID are ever named:
    a label alone is not enough to delete something.
    """
    keep = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in wanted}
    return [
        child
        for child in children
        if (child.kind, child.metadata.name) not in keep
        and any(ref.controller and ref.uid == owner.uid for ref in child.metadata.owner_references)
    ]
