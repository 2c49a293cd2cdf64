"""DFlash heads: their layout decides which of vLLM's runners has them, and so whether K can change.

V1 changes K and runs plain heads only; V2 runs every head and drafts the length of the launch. Where nothing
says the layout vLLM chooses the runner and K stays, since that cannot fail at the start.
"""

from __future__ import annotations

from outrider.api.spec import ModelRunner, Spec
from outrider.api.tuning import Canary, StructuralOff, TuningMode
from outrider.api.weights import WeightsStatus
from outrider.runtimes.vllm.architectures import V2_ALONE, DraftLayout, draft_layout
from outrider_protocol.methods import Method
from outrider_protocol.releases import parse_version, version_text


def settled(spec: Spec, weights: WeightsStatus | None) -> Spec:
    """``spec`` with one K where its head may need V2."""
    if not _keeps_one_k(spec, weights):
        return spec
    wanted = spec.speculation
    untuned = {
        "mode": TuningMode.OFF,
        "structural_off": StructuralOff.NEVER,
        "canary": Canary.NEVER,
    }
    one_k = {
        "candidates": [wanted.num_speculative_tokens],
        "schedule": None,
        "tuning": wanted.tuning.model_copy(update=untuned),
    }
    return spec.model_copy(update={"speculation": wanted.model_copy(update=one_k)})


def refusal(spec: Spec, weights: WeightsStatus | None) -> str | None:
    """Why this release has no such head; None where it may have."""
    layout = draft_layout(spec, weights)
    first = V2_ALONE.get(layout) if spec.speculation.method is Method.DFLASH else None
    if first is None or parse_version(spec.engine.version) >= first:
        return None
    newer = f"set spec.engine.version: {version_text(first)}.0 or newer"
    return f"vLLM {spec.engine.version} does not know {layout.value}; {newer}"


def advice(spec: Spec, weights: WeightsStatus | None) -> str | None:
    """That K stays, why, and what would change it; None where it does not stay, or was asked to."""
    if not _keeps_one_k(spec, weights):
        return None
    stays = (
        f"K stays {spec.speculation.num_speculative_tokens}, and candidates, schedule and tuning are not used"
    )
    v2 = "vLLM's V2 runner drafts the whole length of a dflash head"
    if spec.engine.model_runner is ModelRunner.V2:
        return f"{stays}: {v2}"
    layout = draft_layout(spec, weights)
    if layout is DraftLayout.UNKNOWN:
        return (
            f"{stays}: {v2}, and V1 runs plain heads only; nothing says whether this one is plain. With "
            "spec.cache its config.json is read; where you know it is, set spec.engine.modelRunner: V1"
        )
    return f"{stays}: the drafter is {layout.value}, which only V2 has, and {v2}"


def _keeps_one_k(spec: Spec, weights: WeightsStatus | None) -> bool:
    if spec.speculation.method is not Method.DFLASH or not spec.live:
        return False
    if spec.engine.model_runner is not ModelRunner.AUTO:
        return spec.engine.model_runner is ModelRunner.V2
    return draft_layout(spec, weights) is not DraftLayout.PLAIN
