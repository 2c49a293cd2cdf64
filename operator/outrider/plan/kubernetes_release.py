"""What a spec asks of the cluster's release of Kubernetes."""

from __future__ import annotations

from outrider.api.spec import Spec
from outrider.runtimes.artifacts import images
from outrider.runtimes.resources import device_claims

KubernetesVersion = tuple[int, int]
"""Major and minor number of the API server."""

KNOWN_FROM: KubernetesVersion = (1, 31)
"""The first release whose API has image volumes, behind the feature gate ``ImageVolume``."""
DEFAULT_FROM: KubernetesVersion = (1, 35)
"""The first release in which that gate is on by default."""
CLAIMS_FROM: KubernetesVersion = (1, 34)
"""The first release with Dynamic Resource Allocation by default.

An older one drops claims from a pod without a word, and its engine would start without a GPU.
"""

_NEEDS = "oci:// needs image volumes, which Kubernetes has by default from 1.35"
_INSTEAD = "or copy the weights into a claim and use pvc://"


def matters(spec: Spec) -> bool:
    """Whether any release that is served lacks something that ``spec`` asks for."""
    return bool(images(spec) or device_claims(spec))


def too_old(spec: Spec, kubernetes: KubernetesVersion | None) -> str | None:
    """Why this cluster cannot run ``spec``; None where it can, may, or is not known."""
    if kubernetes is not None and kubernetes < CLAIMS_FROM and device_claims(spec):
        return (
            f"spec.resources.claims needs Kubernetes 1.34, and this cluster is {_text(kubernetes)}: upgrade "
            "it, or ask for GPUs in spec.resources.limits"
        )
    if kubernetes is None or kubernetes >= KNOWN_FROM or not images(spec):
        return None
    return f"{_NEEDS}; this cluster is {_text(kubernetes)}: upgrade it, {_INSTEAD}"


def turned_off(spec: Spec, kubernetes: KubernetesVersion | None, words: str) -> str | None:
    """What a refusal of the API server means where the feature gate may be off; None where it is on.

    words: the API server's words about a volume without a type.
    """
    if kubernetes is None or kubernetes >= DEFAULT_FROM or not images(spec):
        return None
    remedy = f"turn on its feature gate ImageVolume, {_INSTEAD}"
    return f"{_NEEDS}; this cluster is {_text(kubernetes)}: {remedy}. {words}"


def _text(version: KubernetesVersion) -> str:
    return ".".join(map(str, version))
