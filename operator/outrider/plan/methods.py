"""How vLLM runs each method: the one place to add a method to the planner.

What admission must know of a method is in `outrider.api.methods`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from outrider.api.methods import Method

Version = tuple[int, int, int]

OLDEST_VERSION: Version = (0, 32, 0)
"""The oldest vLLM whose internals the engine plugin was written against."""


class Runner(StrEnum):
    """vLLM's two model runners, by the value of ``VLLM_USE_V2_MODEL_RUNNER``."""

    V1 = "0"
    V2 = "1"


@dataclass(frozen=True, slots=True)
class EngineMethod:
    """One method as vLLM runs it."""

    config: Mapping[str, str | int | bool] = field(default_factory=dict)
    """Keys of ``--speculative-config``; empty: no such flag."""
    runner: Runner | None = Runner.V1
    """The model runner it needs; None: vLLM's own choice."""
    removed_in: Version | None = None
    """First version without it."""
    why: str = ""
    """Reason of a limit, for the reference and for messages."""
    source: str = ""
    """Where the facts come from: a module of vLLM or a paper."""


_V1_TABLE = "vllm/v1/worker/gpu_model_runner.py, propose_draft_token_ids"

ENGINE_METHODS: Mapping[Method, EngineMethod] = {
    Method.NONE: EngineMethod(
        runner=None, why="No drafter is loaded, so there is no K to change.", source="no --speculative-config"
    ),
    Method.DRAFT_MODEL: EngineMethod(
        {"method": "draft_model"},
        why="The V2 runner drafts the full length whatever K is, so V1 is used.",
        source="vllm/v1/spec_decode/draft_model.py",
    ),
    Method.EAGLE: EngineMethod({"method": "eagle"}, source=_V1_TABLE),
    Method.EAGLE3: EngineMethod({"method": "eagle3"}, source=_V1_TABLE),
    Method.P_EAGLE: EngineMethod(
        {"method": "eagle3", "parallel_drafting": True},
        why="EAGLE-3 weights trained to draft all tokens in one pass.",
        source="vllm/config/speculative.py, max_num_new_slots_for_drafting",
    ),
    Method.PARD: EngineMethod(
        {"method": "draft_model", "parallel_drafting": True},
        why="A draft model trained to draft all tokens in one pass.",
        source="vllm/config/speculative.py, max_num_new_slots_for_drafting",
    ),
    Method.MTP: EngineMethod(
        {"method": "mtp"},
        why="The target's own prediction layers draft; a drafter is only for models that ship them apart.",
        source="vllm/config/speculative.py, hf_config_override",
    ),
    Method.NGRAM: EngineMethod(
        {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 5},
        why="Looks up the last two to five tokens in the request's own text.",
        source="vllm/v1/spec_decode/ngram_proposer.py",
    ),
    Method.SUFFIX: EngineMethod(
        {"method": "suffix"},
        why="The proposer asserts the K of the launch. The image must contain arctic-inference.",
        source="vllm/v1/spec_decode/suffix_decoding.py",
    ),
    Method.DFLASH: EngineMethod({"method": "dflash"}, source="vllm/v1/spec_decode/dflash.py"),
    Method.DSPARK: EngineMethod(
        {"method": "dspark"},
        runner=Runner.V2,
        why="Only the V2 runner has it, and it drafts its full block whatever K is.",
        source="vllm/v1/worker/gpu/spec_decode",
    ),
    Method.MEDUSA: EngineMethod(
        {"method": "medusa"},
        removed_in=(0, 33, 0),
        why="The proposer asserts the K of the launch.",
        source="vllm/v1/spec_decode/medusa.py",
    ),
    Method.MLP_SPECULATOR: EngineMethod(
        {"method": "mlp_speculator"},
        removed_in=(0, 33, 0),
        why="The V1 and V2 runners have no proposer for it.",
        source="vllm/v1/worker/gpu_model_runner.py",
    ),
    Method.CUSTOM_CLASS: EngineMethod(
        {"method": "custom_class"},
        why="Its proposer is a Python class in the image, which the API cannot name yet.",
        source="vllm/v1/spec_decode/custom_class_proposer.py",
    ),
}


def parse_version(text: str) -> Version:
    """Numbers of a version such as ``0.33.0`` or ``0.33.0.post1``.

    Raises:
        ValueError: it does not start with three numbers.
    """
    major, minor, patch = text.split(".")[:3]
    digits = patch[: len(patch) - len(patch.lstrip("0123456789"))]
    return int(major), int(minor), int(digits)


def unsupported_reason(method: Method, version: str) -> str | None:
    """Why this engine version cannot run ``method``, with a remedy; None when it can."""
    number = parse_version(version)
    if number < OLDEST_VERSION:
        oldest = version_text(OLDEST_VERSION)
        return f"vLLM {version} does not suit Outrider's plugin; set spec.engine.version to {oldest} or newer"
    removed = ENGINE_METHODS[method].removed_in
    if removed is not None and number >= removed:
        return (
            f"vLLM {version} has no method {method}: it was removed in {version_text(removed)}; "
            "choose another method or an older spec.engine.version"
        )
    return None


def version_text(version: Version) -> str:
    """The usual spelling of a version."""
    return ".".join(str(number) for number in version)
