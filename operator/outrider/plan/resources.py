"""Compute resources of the engine container."""

from __future__ import annotations

from outrider.api.spec import Spec

GPU = "nvidia.com/gpu"


def gpus_per_replica(spec: Spec) -> int:
    """GPUs that one replica spreads over."""
    return spec.parallelism.tensor * spec.parallelism.pipeline * spec.parallelism.data


def resources(spec: Spec) -> dict[str, dict[str, str]]:
    """The container's resources: those of the spec, else one GPU per rank."""
    if spec.resources is None:
        return {"limits": {GPU: str(gpus_per_replica(spec))}}
    given = {"limits": spec.resources.limits, "requests": spec.resources.requests}
    return {
        kind: {name: str(quantity) for name, quantity in amounts.items()}
        for kind, amounts in given.items()
        if amounts
    }


def uses_gpu(spec: Spec) -> bool:
    """The container gets a GPU or a slice of one."""
    limits = resources(spec).get("limits", {})
    return any(name.endswith("/gpu") or name.startswith("nvidia.com/mig-") for name in limits)
