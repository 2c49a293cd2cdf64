"""A model whose table a command may hold for a while."""

from __future__ import annotations

from outrider.api.annotations import OVERRIDE
from outrider.api.resource import SpeculativeModel
from outrider.api.speculation import Actuation
from outrider.cli.cluster_access import Access, CannotRead
from outrider.cli.model_reader import read_model
from outrider.cluster.errors import Refused
from outrider.cluster.resources import MODELS
from outrider.cluster.reviews import Act, may
from outrider.plan import settled


async def held_model(
    there: Access, name: str, ks: tuple[int, ...]
) -> tuple[SpeculativeModel, tuple[int, ...]]:
    """The model and its candidates, rising.

    Raises:
        CannotRead: no such model, its table cannot be held, somebody holds it already, a K is none of its
        candidates, or the caller may not hold it.
    """
    model, _ = await read_model(there.cluster, there.namespace, name)
    told, spec = f"{there.namespace}/{name}", settled(model).spec
    if not spec.live or spec.speculation.tuning.actuation is not Actuation.LIVE:
        raise CannotRead(f"this needs tuning.actuation: Live; {told} takes no table while it runs.")
    if OVERRIDE in model.metadata.annotations:
        raise CannotRead(f"{told} has the annotation {OVERRIDE}, which this would overwrite: remove it.")
    candidates = tuple(sorted(spec.candidates()))
    unknown = sorted({*ks} - {*candidates})
    if unknown:
        known = ", ".join(map(str, candidates))
        raise CannotRead(f"--k {unknown[0]} is not one that the engines were launched with: use {known}.")
    await _see_that_it_may_be_held(there, name)
    return model, candidates


async def _see_that_it_may_be_held(there: Access, name: str) -> None:
    """Before load is sent for what cannot be measured then.

    Raises:
        CannotRead: the caller has no right to it.
    """
    act = Act(MODELS.group, MODELS.plural, "patch", there.namespace, name=name)
    try:
        allowed = await may(there.cluster, act)
    except Refused:
        return  # Who may not ask learns it from the write itself.
    if not allowed:
        raise CannotRead(
            f"you may not patch SpeculativeModel {there.namespace}/{name}, and a table is held by an "
            f"annotation: ask for the verb patch on {MODELS.plural}.{MODELS.group} in {there.namespace}."
        )
