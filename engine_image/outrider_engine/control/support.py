"""Which engines can change K while they run, as data. vLLM is not imported.

Each entry was read in the source of the vLLM versions that it covers; ``engine_image/testing/contract`` reads
that source again and compares. The operator's planner holds a table of the same form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

Version: TypeAlias = tuple[int, int]
"""Major and minor number. vLLM's patch releases change none of this."""

OLDEST_VERSION: Version = (0, 26)
NEWEST_VERSION: Version = (0, 33)
"""The vLLM versions whose source was checked, both inclusive."""


class Runner(StrEnum):
    """vLLM's model runner."""

    V1 = "V1"
    V2 = "V2"


class Response(StrEnum):
    """What a method does when a step asks for another K than the configured one."""

    FOLLOWS = "follows"
    """It drafts K tokens."""
    FULL_LENGTH = "full length"
    """It drafts the configured number of tokens; only verification shrinks."""
    BREAKS = "breaks"
    """It fails an assertion or mixes up the drafts of different requests."""
    TABLE_DROPPED = "table dropped"
    """vLLM drops the schedule at the start."""
    ABSENT = "absent"
    """This runner has no such method."""


Spans: TypeAlias = Mapping[Version, Response]
"""First version -> the response from there on."""

PARALLEL = "+parallel"
"""Ending of a method's name with ``parallel_drafting``: ``draft_model+parallel`` is PARD, and
``eagle3+parallel`` P-EAGLE. dflash and dspark always draft in parallel and have no such name."""

MODULES = "+modules"
"""Ending of a method's name where the model has several prediction modules, and uses more than one."""

_FOLLOWS: Spans = {(0, 26): Response.FOLLOWS}
_FULL_LENGTH: Spans = {(0, 26): Response.FULL_LENGTH}
_BREAKS: Spans = {(0, 26): Response.BREAKS}
_BREAKS_OR_DROPPED: Spans = {(0, 26): Response.BREAKS, (0, 33): Response.TABLE_DROPPED}

MATRIX: Mapping[str, Mapping[Runner, Spans]] = {
    "draft_model": {Runner.V1: _FOLLOWS, Runner.V2: {(0, 31): Response.FULL_LENGTH}},
    "eagle": {Runner.V1: _FOLLOWS, Runner.V2: {**_FULL_LENGTH, (0, 32): Response.FOLLOWS}},
    "eagle3": {Runner.V1: _FOLLOWS, Runner.V2: {**_FULL_LENGTH, (0, 32): Response.FOLLOWS}},
    "mtp": {Runner.V1: _FOLLOWS, Runner.V2: {**_FULL_LENGTH, (0, 32): Response.FOLLOWS}},
    f"mtp{MODULES}": {Runner.V1: _FOLLOWS, Runner.V2: _FULL_LENGTH},
    "dflash": {Runner.V1: _FOLLOWS, Runner.V2: _FULL_LENGTH},
    "dspark": {Runner.V2: _FULL_LENGTH},
    "ngram": {Runner.V1: _FOLLOWS, Runner.V2: {(0, 32): Response.FULL_LENGTH}},
    "ngram_gpu": {Runner.V1: _BREAKS_OR_DROPPED, Runner.V2: {(0, 32): Response.FULL_LENGTH}},
    "suffix": {Runner.V1: _BREAKS_OR_DROPPED},
    "medusa": {Runner.V1: {(0, 26): Response.BREAKS, (0, 33): Response.ABSENT}},
    "mlp_speculator": {},
    "extract_hidden_states": {Runner.V1: _BREAKS_OR_DROPPED, Runner.V2: {(0, 29): Response.FULL_LENGTH}},
    "custom_class": {Runner.V1: {(0, 26): Response.FULL_LENGTH, (0, 33): Response.TABLE_DROPPED}},
    # LLMBaseProposer lays out its inputs for the configured K and reshapes its output by the step's K.
    f"draft_model{PARALLEL}": {Runner.V1: _BREAKS},
    f"eagle{PARALLEL}": {Runner.V1: _BREAKS},
    f"eagle3{PARALLEL}": {Runner.V1: _BREAKS},
}
"""Method -> runner -> response by version; what is not named is absent."""

_OBSTACLES: Mapping[Response, str] = {
    Response.FULL_LENGTH: "method {method} does not follow K on the {runner} runner of vLLM {version}",
    Response.BREAKS: "method {method} ends the engine when K is not the configured one",
    Response.TABLE_DROPPED: "vLLM {version} drops the table of method {method} on the {runner} runner",
    Response.ABSENT: "the {runner} runner of vLLM {version} is not known to have method {method}",
}


@dataclass(frozen=True, slots=True)
class Room:
    """Capacity of an engine in tokens: one request, and the KV cache of all."""

    request: int
    cache: int


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What an engine was launched with. ``method`` is None without speculation.

    recurrent: layers of the target carry a state from token to token.
    shares_cache: its KV cache goes to other engines, or comes from them.
    simulated: source of the step times of a simulated engine; None for a real one.
    cuda_graphs: vLLM's mode of CUDA graphs by its name; None where it has none.
    room: None where this release does not report it.
    """

    engine_version: str
    method: str | None
    runner: Runner
    max_num_seqs: int
    num_speculative_tokens: int
    data_parallel_size: int
    parallel_drafting: bool = False
    several_modules: bool = False
    simulated: str | None = None
    room: Room | None = None
    cuda_graphs: str | None = None
    async_scheduling: bool = False
    multimodal: bool = False
    shares_cache: bool = False
    recurrent: bool = False
    pipeline_parallel_size: int = 1


class K0(StrEnum):
    """What the drafter does while K is 0."""

    AUTO = "Auto"
    """Skip where tests on a real engine showed it, else Sync."""
    SYNC = "Sync"
    """It follows every step, as vLLM has it."""
    SKIP = "Skip"
    """Steps skip it, and it catches up before it drafts again."""


K0_VARIABLE = "OUTRIDER_K0"
"""Which of these, in the engine's environment; not set is Auto."""

READ_STATES = ("eagle", "eagle3", "mtp")
"""Their drafters read the target's hidden states besides the text."""

_SHOWN = ("draft_model", "eagle3", "mtp")
"""Methods whose drafter was skipped and caught up in tests on a real engine."""


def skips(facts: EngineFacts, k0: K0) -> bool:
    """Whether steps may skip the drafter of this engine while K is 0."""
    shown = facts.method in _SHOWN and not facts.async_scheduling
    wanted = k0 is K0.SKIP or (k0 is K0.AUTO and shown)
    return wanted and skip_obstacle(facts) is None


def skip_obstacle(facts: EngineFacts) -> str | None:
    """Why no step may skip the drafter of this engine; None when it can catch up.

    A draft model needs the text alone. EAGLE and MTP need the target's hidden states besides, which are kept
    by their place in the KV cache. Of several layers each reads what the one before it made.
    """
    version = parse_version(facts.engine_version)
    if version is None or not OLDEST_VERSION <= version <= NEWEST_VERSION:
        return f"vLLM {facts.engine_version} was not checked for it"
    if facts.simulated is not None:
        return "the engine is simulated"
    alone = not (facts.parallel_drafting or facts.several_modules)
    if facts.method not in ("draft_model", *READ_STATES) or not alone:
        return f"a drafter of method {facts.method} cannot catch up"
    if facts.method in READ_STATES and facts.async_scheduling:
        return "with asynchronous scheduling the scheduler does not know which hidden states to keep"
    if facts.runner is not Runner.V1:
        return f"the drafter cannot be left out on the {facts.runner} runner"
    if facts.data_parallel_size > 1:
        return "ranks of data parallelism run their drafters together"
    if facts.shares_cache:
        return "other engines would get a KV cache with holes"
    if facts.multimodal:
        return "a drafter cannot catch up on images"
    return None


RECURRENT_STATES_RIGHT: Version = (0, 32)
"""The first version in which a step without drafts after accepted ones reads the right recurrent state.
Source: ``GPUModelRunner._prepare_inputs`` of V1, ``mamba_hybrid.py`` of V2, ``gdn_attn.py``."""


def refused_k(facts: EngineFacts) -> dict[int, str]:
    """K with which this release answers wrongly, and why; empty where none is known.

    That is 0, which makes steps without drafts. A drafter that searches the text makes such steps whenever it
    finds nothing. There every other K is refused, and answers are right because no draft is ever accepted.
    """
    version = parse_version(facts.engine_version)
    if not facts.recurrent or version is None or version >= RECURRENT_STATES_RIGHT:
        return {}
    why = (
        f"in a step without drafts after accepted ones vLLM {facts.engine_version} reads a stale recurrent "
        "state, so answers would be wrong; use 0.32 or later"
    )
    searches = facts.method in ("ngram", "ngram_gpu", "suffix")
    return dict.fromkeys(range(1, facts.num_speculative_tokens + 1) if searches else (0,), why)


def obstacle(facts: EngineFacts, *, has_table: bool) -> str | None:
    """Why this engine cannot change K while it runs; None when it can."""
    if facts.method is None:
        return "the engine was launched without speculation"
    if facts.data_parallel_size > 1:
        return data_parallel_obstacle(facts.data_parallel_size)
    version = parse_version(facts.engine_version)
    if version is None or not OLDEST_VERSION <= version <= NEWEST_VERSION:
        return f"vLLM {facts.engine_version} was not checked for live tuning"
    name = variant(
        facts.method, parallel_drafting=facts.parallel_drafting, several_modules=facts.several_modules
    )
    answer = response(name, facts.runner, version)
    if answer is not Response.FOLLOWS:
        return _OBSTACLES[answer].format(method=name, runner=facts.runner, version=facts.engine_version)
    if not has_table:
        return "the engine was launched without num_speculative_tokens_per_batch_size"
    return None


def fast_loop_obstacle(facts: EngineFacts, *, counted: bool) -> str | None:
    """Why an engine whose table can change takes no cost model; None where it does.

    counted: vLLM sums up its drafts.
    """
    if not counted:
        return "steps are not counted, as under --disable-log-stats"
    if facts.pipeline_parallel_size > 1:
        return "with pipeline parallelism the fast loop is not tested"
    return None


def data_parallel_obstacle(size: int) -> str:
    """Why an engine of several data-parallel ranks cannot change K."""
    return f"vLLM drops the table under data parallelism (size {size})"


def response(name: str, runner: Runner, version: Version) -> Response:
    """The entry of `MATRIX` for a method's name, as `variant` gives it."""
    spans = MATRIX.get(name, {}).get(runner, {})
    since = max((first for first in spans if first <= version), default=None)
    return Response.ABSENT if since is None else spans[since]


def variant(method: str, *, parallel_drafting: bool, several_modules: bool = False) -> str:
    """The name under which `MATRIX` has a method."""
    if several_modules:
        return method + MODULES
    return method + PARALLEL if parallel_drafting and method not in ("dflash", "dspark") else method


def parse_version(text: str) -> Version | None:
    """Major and minor number of a version such as ``0.32.0+cpu``; None when there are none."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None
