"""Whether engines have room on the GPUs that a manifest selects, by the estimate of `outrider plan`. Pure.

Nothing is said where model or GPU is not known, or where flags load the weights in another way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from outrider.api.engine_args import loads_otherwise
from outrider.api.quantity import AUTO
from outrider.api.spec import Spec
from outrider.api.weights import WeightsStatus
from outrider.plan.gpu_labels import PRODUCT, asks_for_a_gpu, selected, selected_memory, selected_slice
from outrider.plan.weights.room import no_room
from outrider.sizing.architecture import Architecture
from outrider.sizing.drafters import DraftingModel, draft_model, eagle_head, prediction_layer, without_weights
from outrider.sizing.gpus import gpu_of_product
from outrider.sizing.memory import Load, Memory, Verdict, memory
from outrider.sizing.models import KnownModel, same_model
from outrider.sizing.spread import Spread
from outrider_protocol.methods import TRAITS, Method

_MAX_TENSOR = 64
_AGREES = 0.9
"""Tolerance for weights by the table; a size in the status is rounded to 0.1 GB."""
_QUANTISED = "or quantised weights"


@dataclass(frozen=True, slots=True)
class Shortage:
    """Too little memory on a GPU. certain: the weights alone are more than all that it has."""

    certain: bool
    message: str


@dataclass(frozen=True, slots=True)
class _Gpu:
    name: str
    memory_bytes: float
    sliced: bool = False
    """A part of a GPU. An engine gets one: CUDA shows a process no second."""

    def larger(self, more_gpus: str) -> str:
        """What would hold the engine."""
        if self.sliced:
            return f"a larger MIG partition, a whole GPU, {_QUANTISED}"
        return f"{more_gpus}, a GPU with more memory, {_QUANTISED}"


def shortage(spec: Spec, weights: WeightsStatus | None, *, share: float | None) -> Shortage | None:
    """What is lacking on each GPU; None where there is room, and where that is unknown.

    Nor is there an estimate where the size of the files says the same (`outrider.plan.weights.room`).

    weights: of `spec.cache`, once they are there. share: of the GPU's memory that the engine may take. None:
    there are no figures for the engine, so only weights without room are reported.
    """
    gpu = _selected_gpu(spec)
    if gpu is None or loads_otherwise(spec.engine.args):
        return None
    known = same_model(spec.model.uri)
    files = None if weights is None or weights.model is None else weights.model.size_bytes
    if known is None or not _may_be(known, files):
        return None
    load = Load(1, _longest(spec, weights))
    spread = Spread.of(spec.parallelism)
    held = _held(spec, known.architecture, gpu, share or 1.0, load, spread)
    if (files is not None or spec.model.uri == known.uri) and held.weights > gpu.memory_bytes:
        wider = ((s, _held(spec, known.architecture, gpu, share or 1.0, load, s)) for s in _wider(spread))
        enough = (s for s, needed in wider if _fits(needed) and s.divides(known.architecture.heads))
        return Shortage(True, _certain(held, gpu, next(enough, None)))
    if share is None or _fits(held) or (weights is not None and no_room(spec, weights)):
        return None
    return Shortage(False, _estimated(held, gpu))


def _selected_gpu(spec: Spec) -> _Gpu | None:
    if not asks_for_a_gpu(spec):
        return None
    product, size, profile = selected(spec, PRODUCT), selected_memory(spec), selected_slice(spec)
    if size is not None and profile is not None:
        return _Gpu(f"a MIG partition {profile}", size, sliced=True)
    if size is not None:
        return _Gpu(product or "the selected GPU", size)
    if product is None:
        return None
    found = gpu_of_product(product)
    return None if found is None else _Gpu(product, found.memory_bytes)


def _may_be(known: KnownModel, files: int | None) -> bool:
    """A repository may be called anything; files that are smaller are of other weights, or quantised."""
    return files is None or files >= _AGREES * known.architecture.weight_bytes


def _longest(spec: Spec, weights: WeightsStatus | None) -> int:
    longest = None if weights is None or weights.model is None else weights.model.longest_context
    # With auto vLLM takes what fits.
    return 1 if spec.model.max_length == AUTO else spec.model.longest_context or longest or 1


def _held(spec: Spec, target: Architecture, gpu: _Gpu, share: float, load: Load, spread: Spread) -> Memory:
    return memory(
        target,
        _drafter(spec, target),
        gpu.memory_bytes,
        spread=spread,
        share=share,
        candidates=spec.candidates(),
        load=load,
    )


def _drafter(spec: Spec, target: Architecture) -> DraftingModel:
    """A drafter that is not known counts as nothing: too little is said rather than too much."""
    method, drafter = spec.speculation.method, spec.speculation.drafter
    if TRAITS[method].is_head:
        return eagle_head(method, target)
    if method is Method.MTP:
        return prediction_layer(target)
    known = None if drafter is None else same_model(drafter.uri)
    if method is Method.DRAFT_MODEL and known is not None:
        return draft_model(known.architecture, known.source)
    return without_weights(method)


def _fits(held: Memory) -> bool:
    """Nothing that is known speaks against it."""
    return held.verdict is not Verdict.TOO_LARGE


def _wider(spread: Spread) -> tuple[Spread, ...]:
    sizes = (2**power for power in range(_MAX_TENSOR.bit_length()))
    return tuple(replace(spread, tensor=size) for size in sizes if size > spread.tensor)


def _certain(held: Memory, gpu: _Gpu, enough: Spread | None) -> str:
    more = "more GPUs"
    if enough is not None:
        more = f"at least {enough.gpus} GPUs (spec.parallelism.tensor: {enough.tensor})"
    return (
        f"the weights take {_gb(held.weights)} on each GPU, and {gpu.name} has {_gb(gpu.memory_bytes)}: use "
        f"{gpu.larger(more)}"
    )


def _estimated(held: Memory, gpu: _Gpu) -> str:
    parts = [f"weights {_gb(held.weights)}", f"graphs and the rest {_gb(held.graphs + held.runtime)}"]
    if held.drafter:
        parts.insert(1, f"drafter {_gb(held.drafter)}")
    if held.load.context > 1:
        parts.append(f"cache of one request of {held.load.context} tokens {_gb(held.cache)}")
    return (
        f"Estimated on each GPU: {', '.join(parts)}; that is {_gb(held.needed)}, and the engine may take "
        f"{_gb(held.available)} of the {_gb(gpu.memory_bytes)} of {gpu.name}. It may end while it starts: "
        f"use a smaller spec.model.maxLength, {gpu.larger('more GPUs')}"
    )


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"
