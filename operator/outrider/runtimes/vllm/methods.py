"""How Outrider has vLLM run each method.

What all of Outrider knows of a method is in `outrider_protocol.methods`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from outrider.api.spec import Spec
from outrider_protocol.methods import TRAITS, Method
from outrider_protocol.releases import (
    NEWEST_VERSION,
    OLDEST_VERSION,
    VERSIONS,
    Response,
    Runner,
    Version,
    parse_version,
    response,
    version_text,
)


@dataclass(frozen=True, slots=True)
class EngineMethod:
    """One method as vLLM runs it."""

    config: Mapping[str, int] = field(default_factory=dict)
    """Keys of ``--speculative-config`` besides the method."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment of the engine."""
    why: str = ""
    """Reason of a limit, for the reference and for messages."""
    source: str = ""
    """Where the facts come from: a module of vLLM or a paper."""


_DSPARK_KNOWS_ITS_LENGTH: Version = (0, 31)
_V1_TABLE = "vllm/v1/worker/gpu_model_runner.py, propose_draft_token_ids"

ENGINE_METHODS: Mapping[Method, EngineMethod] = {
    Method.NONE: EngineMethod(
        why="No drafter is loaded, so there is no K to change.", source="no --speculative-config"
    ),
    Method.DRAFT_MODEL: EngineMethod(
        why="On V2 Outrider's plugin makes it follow K; without the plugin V2 drafts the full length. V2 "
        "runs it without CUDA graphs of its own, and V1 has piecewise ones: compare with `modelRunner: V1`.",
        source="vllm/v1/spec_decode/draft_model.py",
    ),
    Method.EAGLE: EngineMethod(source=_V1_TABLE),
    Method.EAGLE3: EngineMethod(source=_V1_TABLE),
    Method.P_EAGLE: EngineMethod(
        why="EAGLE-3 weights trained to draft all tokens in one pass. Another K than that of the launch "
        "mixes up the drafts or ends the engine.",
        source="vllm/v1/spec_decode/llm_base_proposer.py, extra_slots_per_request and propose",
    ),
    Method.PARD: EngineMethod(
        why="A draft model trained to draft all tokens in one pass. Another K than that of the launch "
        "mixes up the drafts or ends the engine.",
        source="vllm/v1/spec_decode/llm_base_proposer.py, extra_slots_per_request and propose",
    ),
    Method.MTP: EngineMethod(
        why="The target's own prediction layers draft; a drafter is only for models that ship them apart. "
        "With several such layers V2 drafts the full length, and K is the verification width.",
        source="vllm/config/speculative.py, hf_config_override",
    ),
    Method.NGRAM: EngineMethod(
        {"prompt_lookup_min": 2, "prompt_lookup_max": 5},
        # vLLM looks up on one thread; the others of numba's pool only get in its way on a busy machine.
        variables={"NUMBA_NUM_THREADS": "1"},
        why="Looks up the last two to five tokens in the request's own text. V2 looks up on the GPU. "
        "Requests without a match draft their last token there, so that all verify K tokens.",
        source="vllm/v1/spec_decode/ngram_proposer.py",
    ),
    Method.NGRAM_GPU: EngineMethod(
        {"prompt_lookup_min": 2, "prompt_lookup_max": 5},
        why="N-gram on the GPU, with which vLLM keeps asynchronous scheduling. The proposer asserts the K of "
        "the launch on V1. On V2 K is the verification width.",
        source="vllm/v1/spec_decode/ngram_proposer_gpu.py",
    ),
    Method.SUFFIX: EngineMethod(
        why="Only V1 has it, and the proposer asserts the K of the launch. Outrider's images lack "
        "arctic-inference, of which PyPI has no wheel: add 0.1.1 in an image of your own. Without it the "
        "engine ends, and `Degraded` says so.",
        source="vllm/v1/spec_decode/suffix_decoding.py",
    ),
    Method.DFLASH: EngineMethod(
        why="A head that drafts a block at once. V2 has every head, and K is the verification width. Before "
        "0.32, V1 changes K of plain heads only. DFlash2, LiLiCorr, heads that mix sliding and full "
        "attention, and those of unknown layout get one K there. `spec.cache` reads the layout; "
        "`modelRunner: V1` asserts that a head is plain.",
        source="vllm/v1/spec_decode/dflash.py",
    ),
    Method.DSPARK: EngineMethod(
        why="Only the V2 runner has it. It drafts its full block, and K is the verification width.",
        source="vllm/v1/worker/gpu/spec_decode",
    ),
    Method.MEDUSA: EngineMethod(
        why="The proposer asserts the K of the launch.",
        source="vllm/v1/spec_decode/medusa.py",
    ),
    Method.MLP_SPECULATOR: EngineMethod(
        why="The V1 and V2 runners have no proposer for it.",
        source="vllm/v1/worker/gpu_model_runner.py",
    ),
    Method.CUSTOM_CLASS: EngineMethod(
        why="Its proposer is a Python class in the image, and no field of the spec names it.",
        source="vllm/v1/spec_decode/custom_class_proposer.py",
    ),
}


_NAMES_ON_V2: Mapping[tuple[Method, Version], Method] = {(Method.NGRAM, (0, 32)): Method.NGRAM_GPU}
"""V2 looks n-grams up on the GPU by both names. In 0.32 it schedules asynchronously by this one alone. V1
runs another look-up by it. Source: ``VllmConfig.__post_init__``, ``NgramGPUTypes``."""


def name_on_v2(method: Method, version: str) -> Method | None:
    """The method's name for the V2 runner of a release, if it is not vLLM's usual one."""
    return _NAMES_ON_V2.get((method, parse_version(version)))


def engine_config(method: Method) -> dict[str, str | int | bool]:
    """The keys of ``--speculative-config`` that make vLLM draft by ``method``; empty: no such flag."""
    if method is Method.NONE:
        return {}
    traits = TRAITS[method]
    parallel = {"parallel_drafting": True} if traits.parallel else {}
    return {"method": traits.engine_name or method.value, **parallel, **ENGINE_METHODS[method].config}


def unsupported_reason(method: Method, version: str) -> str | None:
    """Why this engine version cannot run ``method``, with a remedy; None when it can."""
    number = parse_version(version)
    if number < OLDEST_VERSION:
        oldest = version_text(OLDEST_VERSION)
        return f"vLLM {version} is not supported; set spec.engine.version to {oldest}.0 or newer"
    if number > NEWEST_VERSION:
        remedy = f"set spec.engine.version to {version_text(NEWEST_VERSION)}.0 or older"
        return f"vLLM {version} was not checked with Outrider's plugin; {remedy}"
    if not _has(number, method):
        return (
            f"vLLM {version} has no method {method}; choose another method, or another spec.engine.version: "
            f"it runs with {versions_with(method)}"
        )
    return None


def length_refusal(spec: Spec) -> str | None:
    """Why this engine version needs `numSpeculativeTokens`; None where it has a length of its own."""
    wanted, version = spec.speculation, spec.engine.version
    left_out = wanted.method is Method.DSPARK and wanted.num_speculative_tokens is None
    if not left_out or parse_version(version) >= _DSPARK_KNOWS_ITS_LENGTH:
        return None
    return (
        f"vLLM {version} does not read the length of a dspark head; set numSpeculativeTokens to the "
        "block_size of its config.json, or spec.engine.version to "
        f"{version_text(_DSPARK_KNOWS_ITS_LENGTH)}.0 or newer"
    )


def versions_with(method: Method) -> str:
    """The versions that have ``method`` on either runner, such as ``all`` or ``0.26 to 0.32``."""
    having = [version for version in VERSIONS if _has(version, method)]
    if not having:
        return "none"
    if having == list(VERSIONS):
        return "all"
    return f"{version_text(having[0])} to {version_text(having[-1])}"


def _has(version: Version, method: Method) -> bool:
    on_each = (response(method.variant, runner, version) for runner in Runner)
    return method is Method.NONE or any(answer is not Response.ABSENT for answer in on_each)
