"""What the architectures of target and drafter decide about a launch: read in their config.json, else guessed
by their names.

Source: vLLM 0.26 to 0.33. Recurrent targets are the classes of ``model_executor/models`` that have
``IsHybrid``, ``HasInnerState`` or ``IsAttentionFree``. Layouts of DFlash heads are those of
``VllmConfig._get_v1_model_runner_unsupported_features``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from outrider.api.spec import Spec
from outrider.api.weights import ArtifactStatus, WeightsStatus
from outrider_protocol.releases import Version

RECURRENT = frozenset(
    {
        "AliceAIForCausalLM",
        "BailingMoeV2_5ForCausalLM",
        "BailingMoeV3ForCausalLM",
        "BailingMoeV3VLForConditionalGeneration",
        "BambaForCausalLM",
        "FalconH1ForCausalLM",
        "FalconMambaForCausalLM",
        "Glm5NextForCausalLM",
        "Glm5NextForConditionalGeneration",
        "GraniteMoeHybridForCausalLM",
        "InternS2MobiusForConditionalGeneration",
        "InternS2PreviewForConditionalGeneration",
        "JambaForCausalLM",
        "KimiK3ForConditionalGeneration",
        "KimiLinearForCausalLM",
        "Lfm2ForCausalLM",
        "Lfm2MoeForCausalLM",
        "Lfm2VlForConditionalGeneration",
        "Mamba2ForCausalLM",
        "MambaForCausalLM",
        "MiniCPMOcrForConditionalGeneration",
        "MiniCPMV4_6ForConditionalGeneration",
        "MiniCPMV4_7ForConditionalGeneration",
        "MiniMaxForCausalLM",
        "MiniMaxM1ForCausalLM",
        "MiniMaxText01ForCausalLM",
        "NemotronHForCausalLM",
        "NemotronHPuzzleForCausalLM",
        "NemotronH_Nano_Omni_Reasoning_V3",
        "NemotronH_Nano_VL_V2",
        "NemotronH_Omni_Reasoning_V3",
        "NemotronH_Super_Omni_Reasoning_V3",
        "OlmoHybridForCausalLM",
        "Plamo2ForCausalLM",
        "Qwen3NextForCausalLM",
        "Qwen3_5ForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5MoeForConditionalGeneration",
        "Qwen4ExpForCausalLM",
        "Qwen4ExpForConditionalGeneration",
        "Zamba2ForCausalLM",
    }
)
"""Architectures in which some layer carries a state from token to token."""

_RECURRENT_LAYERS = frozenset(
    {"linear_attention", "lightning_attention", "linear", "mamba", "mamba1", "mamba2", "conv", "hybrid"}
)
_STATELESS_LAYERS = frozenset({"attention", "full_attention"})
"""vLLM takes the class of a hybrid for none where all layers are of these: ``ModelConfig.is_hybrid``."""
_RECURRENT_NAMES = re.compile(
    r"qwen-?3[-_]?next|qwen-?3\.[5-9]|nemotron-?h\b|nemotron-3|nemotron-nano-(9b|12b)|kimi-(linear|k3)|jamba|"
    r"mamba|lfm-?2|granite-?4|falcon-?h1|minimax-(text-01|m1)|zamba|plamo-?2|olmo-hybrid",
    re.IGNORECASE,
)

_DFLASH2, _LILICORR = "DFlash2DraftModel", "LiLiCorrDraftModel"
_SLIDING = "sliding_attention"


class DraftLayout(Enum):
    """Layout of a DFlash head."""

    PLAIN = "plain"
    """One kind of attention, and no head that chooses among candidates: V1 runs it, and follows K."""
    MIXED = "sliding and full attention in one head"
    CANDIDATE_HEAD = "a DFlash2 head"
    CORRECTED = "a LiLiCorr head"
    UNKNOWN = "unknown"
    """Neither its config.json nor its name says it."""


V2_ALONE: Mapping[DraftLayout, Version] = {
    DraftLayout.MIXED: (0, 26),
    DraftLayout.CANDIDATE_HEAD: (0, 28),
    DraftLayout.CORRECTED: (0, 31),
}
"""Layouts that V1 refuses, or drafts wrongly with, and the first version that has them on V2."""


def recurrent(spec: Spec, weights: WeightsStatus | None) -> bool | None:
    """Whether the target carries a state from token to token; None where nothing says it."""
    target = _of(spec.model.uri, None if weights is None else weights.model)
    kinds = _kinds(target)
    if kinds and kinds <= _STATELESS_LAYERS:
        return False
    if not kinds.isdisjoint(_RECURRENT_LAYERS):
        return True
    if target is not None and target.architecture is not None:
        return target.architecture in RECURRENT
    return True if _RECURRENT_NAMES.search(spec.model.uri) else None


def draft_layout(spec: Spec, weights: WeightsStatus | None) -> DraftLayout:
    """Layout of the drafter, whatever its method."""
    wanted = spec.speculation.drafter
    if wanted is None:
        return DraftLayout.UNKNOWN
    drafter = _of(wanted.uri, None if weights is None else weights.drafter)
    name = re.sub("[-_.]", "", wanted.uri.lower())
    made_for = "" if drafter is None else f"{drafter.architecture} {drafter.made_for_method}".lower()
    if _LILICORR.lower() in made_for or "lilicorr" in name:
        return DraftLayout.CORRECTED
    if "dflash2" in made_for or "dflash2" in name:
        return DraftLayout.CANDIDATE_HEAD
    kinds = _kinds(drafter)
    if _SLIDING in kinds and len(kinds) > 1:
        return DraftLayout.MIXED
    known = drafter is not None and drafter.architecture is not None
    return DraftLayout.PLAIN if known else DraftLayout.UNKNOWN


def _of(uri: str, artifact: ArtifactStatus | None) -> ArtifactStatus | None:
    """What was downloaded, where it is what is wanted now."""
    return artifact if artifact is not None and uri in (artifact.uri, _volume_path(artifact, uri)) else None


def _volume_path(artifact: ArtifactStatus, uri: str) -> str:
    """A spec that was planned already names the place on the volume."""
    return uri if uri.startswith("pvc://") and uri.endswith(f"/{artifact.path}") else artifact.uri


def _kinds(artifact: ArtifactStatus | None) -> frozenset[str]:
    listed = None if artifact is None else artifact.layer_kinds
    return frozenset(listed.split(",")) if listed else frozenset()
