"""Which GPUs a manifest selects, by the labels that GPU feature discovery gives nodes. Pure."""

from __future__ import annotations

from outrider.api.spec import Spec
from outrider.api.text import whole_number

PRODUCT = "nvidia.com/gpu.product"
MEMORY = "nvidia.com/gpu.memory"
"""MiB."""
_MIB = 2**20
_LARGEST_MIB = 10_000_000


def selected(spec: Spec, label: str) -> str | None:
    """The value of a label by which the manifest selects nodes."""
    overlay = spec.pod_template.spec if spec.pod_template is not None else {}
    selector = overlay.get("nodeSelector")
    value = selector.get(label) if isinstance(selector, dict) else None
    return value if isinstance(value, str) else None


def selected_memory(spec: Spec) -> float | None:
    """Bytes of each GPU, by the label that says it in numbers; None without one that can be read."""
    mib = whole_number(selected(spec, MEMORY) or "", least=1, most=_LARGEST_MIB)
    return None if mib is None else float(mib * _MIB)
