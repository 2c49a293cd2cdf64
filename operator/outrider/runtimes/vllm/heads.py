"""DFlash heads: their layout decides which of vLLM's runners and releases have them."""

from __future__ import annotations

from outrider.api.spec import Spec
from outrider.api.weights import WeightsStatus
from outrider.runtimes.vllm.architectures import V2_ALONE, draft_layout
from outrider_protocol.methods import Method
from outrider_protocol.releases import parse_version, version_text


def refusal(spec: Spec, weights: WeightsStatus | None) -> str | None:
    """Why this release has no such head; None where it may have."""
    layout = draft_layout(spec, weights)
    first = V2_ALONE.get(layout) if spec.speculation.method is Method.DFLASH else None
    if first is None or parse_version(spec.engine.version) >= first:
        return None
    newer = f"set spec.engine.version: {version_text(first)}.0 or newer"
    return f"vLLM {spec.engine.version} does not know {layout.value}; {newer}"
