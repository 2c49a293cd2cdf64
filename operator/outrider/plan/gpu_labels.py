"""Which GPUs, or MIG partitions, a manifest selects: by resources and labels of GPU feature discovery. Pure.

A node whose GPUs are all cut alike (MIG strategy "single") shows partitions as GPUs: product and memory are
those of a partition. Where profiles are mixed each is a resource of its own, and so are its labels.
"""

from __future__ import annotations

import re

from outrider.api.spec import Spec
from outrider.api.text import whole_number
from outrider.runtimes.resources import GPU, resources

PRODUCT = "nvidia.com/gpu.product"
MEMORY = "nvidia.com/gpu.memory"
"""MiB."""
_MIB, _GIB = 2**20, 2.0**30
_MAX_MIB = 10_000_000
_MAX_LABEL = 63
"""Characters of a label's value. An overlay is free JSON: the API server may never have seen this one."""
_MAX_RESOURCE = 317
"""Characters of a resource's name: a DNS name of 253, a slash and a name of 63."""
_PROFILE = r"(?:\d+c\.)?\d+g\.(\d{1,4})gb"
_SLICE = re.compile(rf"nvidia\.com/mig-({_PROFILE}(?:\..+)?)")
"""As in nvidia.com/mig-1g.10gb, or mig-1g.10gb.me with what else the partition has."""
_PRODUCT_OF_A_SLICE = re.compile(rf"-MIG-({_PROFILE})(?!\w)", re.IGNORECASE)
"""As in NVIDIA-A100-SXM4-40GB-MIG-1g.5gb."""


def selected(spec: Spec, label: str) -> str | None:
    """The value of a label by which the manifest selects nodes; None for one that no node can have."""
    overlay = spec.pod_template.spec if spec.pod_template is not None else {}
    selector = overlay.get("nodeSelector")
    value = selector.get(label) if isinstance(selector, dict) else None
    return value if isinstance(value, str) and len(value) <= _MAX_LABEL else None


def selected_slice(spec: Spec) -> str | None:
    """The MIG profile of the partitions that engines get, such as 1g.10gb; None for whole GPUs."""
    found = _of_resources(spec) or _of_product(spec)
    return None if found is None else found[1]


def selected_memory(spec: Spec) -> float | None:
    """Bytes of each GPU or partition: by the label that says it, else by the profile; None without both.

    A profile's name is rounded up, so a partition has no more than that.
    """
    resource = _of_resources(spec)
    labelled = _mib(spec, MEMORY if resource is None else f"{resource[0]}.memory")
    found = resource or _of_product(spec)
    return labelled if labelled is not None or found is None else int(found[2]) * _GIB


def asks_for_a_gpu(spec: Spec) -> bool:
    """The container's limits have GPUs, or partitions of one."""
    return GPU in resources(spec).get("limits", {}) or _of_resources(spec) is not None


def _of_resources(spec: Spec) -> re.Match[str] | None:
    limits = resources(spec).get("limits", {})
    names = (name for name in limits if len(name) <= _MAX_RESOURCE)
    return next((found for name in names if (found := _SLICE.fullmatch(name)) is not None), None)


def _of_product(spec: Spec) -> re.Match[str] | None:
    return _PRODUCT_OF_A_SLICE.search(selected(spec, PRODUCT) or "")


def _mib(spec: Spec, label: str) -> float | None:
    mib = whole_number(selected(spec, label) or "", least=1, most=_MAX_MIB)
    return None if mib is None else float(mib * _MIB)
