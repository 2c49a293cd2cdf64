"""Whether downloaded weights have room on the GPUs that the manifest itself names. Pure.

Only weights count here; cache, graphs and the rest come on top (``outrider plan`` reckons with all of it).
Files may be larger than what is loaded of them, as with 32-bit numbers or a quantisation at the start, so
this is told and nothing is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from outrider.api.methods import Method
from outrider.api.spec import Spec
from outrider.api.weights import ArtifactStatus, WeightsStatus
from outrider.plan.resources import resources

_MIB, _GIB = 2.0**20, 2.0**30
_MEMORY_LABEL = "nvidia.com/gpu.memory"
"""MiB, by NVIDIA's GPU feature discovery."""
_PRODUCT_LABEL = "nvidia.com/gpu.product"
_IN_A_PRODUCT = re.compile(r"(?:^|-)(\d+)GB(?:-|$)")
"""As in NVIDIA-H100-80GB-HBM3; not every product's name tells."""
_SLICE = re.compile(r"nvidia\.com/mig-\d+g\.(\d+)gb(?:\..*)?")
_SIZE = re.compile(r"(\d+\.\d) GB")


def no_room(spec: Spec, weights: WeightsStatus) -> str | None:
    """Why engines will hardly start, with both numbers; None where they may, or where nobody knows."""
    memory = gpu_memory(spec)
    if memory is None or weights.model is None:
        return None
    gpus = spec.parallelism.gpus
    needed = _bytes(weights.model) / gpus
    if weights.drafter is not None:
        needed += _bytes(weights.drafter) / (gpus if spec.speculation.method is Method.DRAFT_MODEL else 1)
    if needed <= memory:
        return None
    return (
        f"the weights take {needed / 1e9:.1f} GB on each of {gpus} GPU{'s' if gpus > 1 else ''}, which have "
        f"{memory / 1e9:.1f} GB: engines will hardly start; spread them by spec.parallelism.tensor"
    )


def gpu_memory(spec: Spec) -> float | None:
    """Bytes of each GPU at most, by the slice or nodes that the manifest asks for; None: it does not say."""
    return min(_told(spec), default=None)


def _told(spec: Spec) -> Iterator[float]:
    for name in resources(spec).get("limits", {}):
        if (found := _SLICE.fullmatch(name)) is not None:
            yield int(found[1]) * _GIB
    labels = spec.pod_template.spec.get("nodeSelector") if spec.pod_template is not None else None
    if not isinstance(labels, dict):
        return
    mib = str(labels.get(_MEMORY_LABEL, ""))
    if mib.isdecimal() and int(mib) > 0:
        yield int(mib) * _MIB
    if (found := _IN_A_PRODUCT.search(str(labels.get(_PRODUCT_LABEL, "")))) is not None:
        yield int(found[1]) * _GIB


def _bytes(artifact: ArtifactStatus) -> float:
    """As the status tells it, to a tenth of a GB."""
    found = _SIZE.fullmatch(artifact.size)
    return float(found[1]) * 1e9 if found is not None else 0.0
