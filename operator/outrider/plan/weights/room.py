"""Whether downloaded weights have room on the GPUs that the manifest itself names. Pure.

Only weights count here; cache, graphs and the rest come on top (``outrider plan`` reckons with all of it).
Files may be larger than what is loaded of them, as with 32-bit numbers or a quantisation at the start. So
this is a message, and no refusal.
"""

from __future__ import annotations

import re

from outrider.api.spec import Spec
from outrider.api.weights import WeightsStatus
from outrider.plan.gpu_labels import PRODUCT, selected, selected_memory

_GIB = 2.0**30
_IN_A_PRODUCT = re.compile(r"(?:^|-)(\d+)GB(?:-|$)")
"""As in NVIDIA-H100-80GB-HBM3; not every product's name has it."""


def no_room(spec: Spec, weights: WeightsStatus) -> str | None:
    """Why engines will hardly start, with both numbers; None where they may, or where it is not known."""
    memory = gpu_memory(spec)
    if memory is None or weights.model is None:
        return None
    parallelism = spec.parallelism
    gpus = parallelism.gpus
    # As `outrider.sizing.spread` divides. How much of the files are experts is not known: all of it counts.
    shares = gpus if weights.model.experts else parallelism.tensor * parallelism.pipeline
    needed = (weights.model.size_bytes or 0) / shares
    if weights.drafter is not None:
        # vLLM spreads a drafter over the tensor-parallel GPUs of its target.
        needed += (weights.drafter.size_bytes or 0) / parallelism.tensor
    if needed <= memory:
        return None
    return (
        f"the weights take {needed / 1e9:.1f} GB on each of {gpus} GPU{'s' if gpus > 1 else ''}, which have "
        f"{memory / 1e9:.1f} GB: engines will hardly start; spread them by spec.parallelism.tensor"
    )


def gpu_memory(spec: Spec) -> float | None:
    """Bytes of each GPU at most, by the partition or nodes that the manifest asks for; None: unknown."""
    labelled = selected_memory(spec)
    found = _IN_A_PRODUCT.search(selected(spec, PRODUCT) or "")
    return labelled if labelled is not None or found is None else int(found[1]) * _GIB
