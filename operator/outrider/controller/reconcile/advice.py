"""Advice on a launch before its pods serve: weights, memory, downloads. Pure."""

from __future__ import annotations

from outrider.api.resource import SpeculativeModel
from outrider.api.spec import Spec
from outrider.api.weights import WeightsStatus
from outrider.plan.weights.fit import advice
from outrider.plan.weights.needs import needs_of
from outrider.runtimes import runtime_of
from outrider.runtimes.artifacts import each_pod_downloads
from outrider.sizing.room import Shortage, shortage

_EACH_DOWNLOADS = (
    "Each pod downloads the weights, also after a restart. To download them once for all pods, set spec.cache"
)


def advised(model: SpeculativeModel) -> WeightsStatus | None:
    """The downloaded weights, with advice on how the present spec uses them."""
    weights = model.status.weights
    if weights is None or needs_of(model) is None:
        return None
    return weights.model_copy(update={"advice": advice(model.spec, weights)})


def told_at_the_start(model: SpeculativeModel, weights: WeightsStatus | None) -> str | None:
    """Advice for the time in which pods start, in one sentence; None if there is none."""
    if model.spec.replicas > 1 and each_pod_downloads(model.spec):
        return _EACH_DOWNLOADS
    return f"Note: {weights.advice}" if weights is not None and weights.advice is not None else None


def known_limits(model: SpeculativeModel) -> tuple[str, ...]:
    """The known issues of this launch, one sentence each. They do not prevent it."""
    return runtime_of(model.spec).advice(model.spec, model.status.weights)


def missing_memory(spec: Spec, weights: WeightsStatus | None) -> Shortage | None:
    """The memory that the selected GPUs lack; None if it is enough or unknown."""
    try:
        share = runtime_of(spec).gpu_memory_share(spec.engine.args)
    except ValueError:  # The engine reports it.
        return None
    return shortage(spec, weights, share=share)
