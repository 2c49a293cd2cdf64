"""What a spec asks of the cluster's release of Kubernetes."""

from __future__ import annotations

from outrider.api.spec import Spec
from outrider.plan import image_volumes
from outrider.plan.image_volumes import KubernetesVersion
from outrider.runtimes.artifacts import images
from outrider.runtimes.resources import device_claims

CLAIMS_FROM: KubernetesVersion = (1, 34)
"""The first release with Dynamic Resource Allocation by default.

An older one drops claims from a pod without a word, and its engine would start without a GPU.
"""


def matters(spec: Spec) -> bool:
    """Whether any release that is served lacks something that ``spec`` asks for."""
    return bool(images(spec) or device_claims(spec))


def too_old(spec: Spec, kubernetes: KubernetesVersion | None) -> str | None:
    """Why this cluster cannot run ``spec``; None where it can, may, or is not known."""
    if kubernetes is not None and kubernetes < CLAIMS_FROM and device_claims(spec):
        release = ".".join(map(str, kubernetes))
        return (
            f"spec.resources.claims needs Kubernetes 1.34, and this cluster is {release}: upgrade it, or ask "
            "for GPUs in spec.resources.limits"
        )
    return image_volumes.too_old(spec, kubernetes)
