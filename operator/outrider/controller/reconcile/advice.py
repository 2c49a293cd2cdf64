"""What is foreseen of a launch before its pods serve: of weights, memory, downloads. Pure."""

from __future__ import annotations

from outrider.api.resource import SpeculativeModel
from outrider.api.spec import Spec
from outrider.api.weights import WeightsStatus
from outrider.plan.artifacts import each_pod_downloads
from outrider.plan.runtimes import runtime_of
from outrider.plan.weights.fit import advice
from outrider.plan.weights.needs import needs_of
from outrider.sizing.room import Shortage, shortage

_EACH_DOWNLOADS = (
    "Each of them downloads the weights by itself; spec.cache has them downloaded once, for all replicas and "
    "all restarts"
)


def advised(model: SpeculativeModel) -> WeightsStatus | None:
    """The downloaded weights, with what the present spec makes of them."""
    weights = model.status.weights
    if weights is None or needs_of(model) is None:
        return None
    return weights.model_copy(update={"advice": advice(model.spec, weights)})


def told_at_the_start(model: SpeculativeModel, weights: WeightsStatus | None) -> str | None:
    """One sentence; None where all is as well as it could be."""
    if model.spec.replicas > 1 and each_pod_downloads(model.spec):
        return _EACH_DOWNLOADS
    return f"Note: {weights.advice}" if weights is not None and weights.advice is not None else None


def known_limits(model: SpeculativeModel) -> tuple[str, ...]:
    """What is known of such a launch and does not keep it from being made, one sentence each."""
    return runtime_of(model.spec).advice(model.spec, model.status.weights)


def missing_memory(spec: Spec, weights: WeightsStatus | None) -> Shortage | None:
    """On the GPUs that the spec selects; None where there is room, and where nobody can know."""
    try:
        share = runtime_of(spec).gpu_memory_share(spec.engine.args)
    except ValueError:  # The engine says so itself.
        return None
    return shortage(spec, weights, share=share)
