"""A model whose schedule a command may override for a while."""

from __future__ import annotations

from outrider.api.annotations import OVERRIDE
from outrider.api.resource import SpeculativeModel
from outrider.api.speculation import Actuation
from outrider.cli.common.cluster import Access, CannotRead
from outrider.cli.common.model_reader import read_model
from outrider.cluster.errors import Refused
from outrider.cluster.resources import MODELS
from outrider.cluster.reviews import Act, may
from outrider.plan import settled


async def held_model(
    there: Access, name: str, ks: tuple[int, ...]
) -> tuple[SpeculativeModel, tuple[int, ...]]:
    """The model and its candidates, rising.

    Raises:
        CannotRead: no such model, one without live tuning, or one that has an override already.
        CannotRead: a K that is not a candidate, or a caller who may not set an override.
    """
    model, _ = await read_model(there.cluster, there.namespace, name)
    name_of_model, spec = f"{there.namespace}/{name}", settled(model).spec
    if not spec.live or spec.speculation.tuning.actuation is not Actuation.LIVE:
        raise CannotRead(
            f"this needs tuning.actuation: Live; engines of {name_of_model} cannot change K while they run."
        )
    if OVERRIDE in model.metadata.annotations:
        raise CannotRead(
            f"{name_of_model} has the annotation {OVERRIDE}, which this would overwrite. Remove it first."
        )
    candidates = tuple(sorted(spec.candidates()))
    unknown = sorted({*ks} - {*candidates})
    if unknown:
        known = ", ".join(map(str, candidates))
        raise CannotRead(
            f"--k {unknown[0]} is not a candidate, so the engines were launched without it. Use {known}."
        )
    await _require_right(there, name)
    return model, candidates


async def _require_right(there: Access, name: str) -> None:
    """Check the right to set an override, before load is sent.

    Raises:
        CannotRead: the caller has no such right.
    """
    act = Act(MODELS.group, MODELS.plural, "patch", there.namespace, name=name)
    try:
        allowed = await may(there.cluster, act)
    except Refused:
        return  # A caller who may not ask gets the answer from the write.
    if not allowed:
        raise CannotRead(
            f"you may not patch SpeculativeModel {there.namespace}/{name}, and an override is an "
            f"annotation. Ask for the verb patch on {MODELS.plural}.{MODELS.group} in {there.namespace}."
        )
