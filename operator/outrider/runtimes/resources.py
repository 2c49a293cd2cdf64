"""Compute resources of the engine container."""

from __future__ import annotations

from outrider.api.pod_resources import DeviceClaim
from outrider.api.spec import Spec

GPU = "nvidia.com/gpu"


def resources(spec: Spec) -> dict[str, dict[str, str]]:
    """The container's resources: those of the spec, else one GPU per rank.

    Some CPU and memory is requested where the spec names neither. A node that runs short evicts pods
    without requests first, and gives them CPU last.
    """
    if spec.resources is None:
        return {"limits": {GPU: str(spec.parallelism.gpus_per_pod)}, "requests": _processes(spec)}
    given = {
        kind: {name: str(quantity) for name, quantity in amounts.items()}
        for kind, amounts in (("limits", spec.resources.limits), ("requests", spec.resources.requests))
    }
    if not any(name in amounts for amounts in given.values() for name in ("cpu", "memory")):
        given["requests"] |= _processes(spec)
    return {kind: amounts for kind, amounts in given.items() if amounts}


def _processes(spec: Spec) -> dict[str, str]:
    """What an engine takes at least: a worker per GPU, and server and scheduler together as one."""
    count = spec.parallelism.gpus_per_pod + 1
    return {"cpu": str(count), "memory": f"{4 * count}Gi"}


def shared_memory(spec: Spec) -> str:
    """Size of /dev/shm, by which an engine's processes talk: a GiB each."""
    return f"{spec.parallelism.gpus_per_pod + 1}Gi"


def device_claims(spec: Spec) -> tuple[DeviceClaim, ...]:
    """Devices by Dynamic Resource Allocation."""
    return () if spec.resources is None else tuple(spec.resources.claims)


def uses_gpu(spec: Spec) -> bool:
    """The container gets a GPU or a partition of one."""
    if device_claims(spec):
        return True
    limits = resources(spec).get("limits", {})
    return any(_is_gpu(name) and amount != "0" for name, amount in limits.items())


def too_few_gpus(spec: Spec) -> str | None:
    """Why no engine starts with these limits; None where their GPUs are enough, or are not counted here."""
    amount, needed = resources(spec).get("limits", {}).get(GPU, ""), spec.parallelism.gpus_per_pod
    if not amount.isdecimal() or not 0 < int(amount) < needed:
        return None
    return (
        f"spec.resources.limits has {amount} of {GPU} for each pod, and spec.parallelism needs {needed}, so "
        f"engines end at their start. Write {needed}, or lower spec.parallelism"
    )


def _is_gpu(resource: str) -> bool:
    """A GPU of any vendor, a partition of one, or a turn on one.

    The device plugin of NVIDIA names turns ``gpu.shared`` with ``renameByDefault``.
    """
    return resource.endswith(("/gpu", "/gpu.shared")) or resource.startswith("nvidia.com/mig-")
