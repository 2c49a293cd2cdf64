"""Images as volumes, by which oci:// weights come: which releases of Kubernetes have them."""

from __future__ import annotations

from outrider.api.spec import Spec
from outrider.runtimes.artifacts import images

KubernetesVersion = tuple[int, int]
"""Major and minor number of the API server."""

KNOWN_FROM: KubernetesVersion = (1, 31)
"""The first release whose API has the field, behind the feature gate ``ImageVolume``."""
DEFAULT_FROM: KubernetesVersion = (1, 35)
"""The first release in which the gate is on by default."""

_NEEDS = "oci:// needs image volumes, which Kubernetes has by default from 1.35"
_INSTEAD = "or copy the weights into a claim and use pvc://"


def too_old(spec: Spec, kubernetes: KubernetesVersion | None) -> str | None:
    """Why this cluster cannot mount the images of ``spec``; None where it can, may, or is not known."""
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
