"""A model whose table a command may hold for a while."""

from __future__ import annotations

from outrider.api.annotations import OVERRIDE
from outrider.api.resource import SpeculativeModel
from outrider.api.speculation import Actuation
from outrider.cli.cluster_access import Access, CannotRead
from outrider.cli.model_reader import read_model


async def held_model(
    there: Access, name: str, ks: tuple[int, ...]
) -> tuple[SpeculativeModel, tuple[int, ...]]:
    """The model and its candidates, rising.

    Raises:
        CannotRead: no such model, its table cannot be held, somebody holds it already, or a K is none of
        its candidates.
    """
    model, _ = await read_model(there.cluster, there.namespace, name)
    told, spec = f"{there.namespace}/{name}", model.spec
    if not spec.live or spec.speculation.tuning.actuation is not Actuation.LIVE:
        raise CannotRead(f"this needs tuning.actuation: Live; {told} takes no table while it runs.")
    if OVERRIDE in model.metadata.annotations:
        raise CannotRead(f"{told} has the annotation {OVERRIDE}, which this would overwrite: remove it.")
    candidates = tuple(sorted(spec.candidates()))
    unknown = sorted({*ks} - {*candidates})
    if unknown:
        known = ", ".join(map(str, candidates))
        raise CannotRead(f"--k {unknown[0]} is not one that the engines were launched with: use {known}.")
    return model, candidates
