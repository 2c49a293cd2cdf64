"""Which engines can change K while they run, skip their drafter or use a cost model, by release.

vLLM is not imported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from outrider_engine.control.engine_facts import Abilities, EngineFacts
from outrider_protocol.environment import CANDIDATES_VARIABLE
from outrider_protocol.k_control import KControl, k_control
from outrider_protocol.methods import K0, TRAITS, Kind, methods_with
from outrider_protocol.releases import (
    RECURRENT_STATES_RIGHT,
    VERSIONS,
    Response,
    Runner,
    Version,
    parse_version,
    response,
    variant,
)

_OBSTACLES: Mapping[Response, str] = {
    Response.FULL_LENGTH: "the {runner} runner of vLLM {version} ignores K of method {method}",
    Response.BREAKS: "method {method} ends the engine when K is not the configured one",
    Response.TABLE_DROPPED: "vLLM {version} drops the table of method {method} on the {runner} runner",
    Response.ABSENT: "the {runner} runner of vLLM {version} is not known to have method {method}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmFacts(EngineFacts):
    """What an engine of vLLM was launched with.

    recurrent, recurrent_drafter: layers of the target or of the drafter carry a state from token to token.
    windowed_drafter: its attention sees the last tokens only.
    context_parallel: several ranks share the KV cache of a request.
    k0: what the operator asks for, see `K0`.
    shares_cache: its KV cache goes to other engines, or comes from them.
    """

    runner: Runner
    data_parallel_size: int
    parallel_drafting: bool = False
    several_modules: bool = False
    async_scheduling: bool = False
    multimodal: bool = False
    shares_cache: bool = False
    recurrent: bool = False
    recurrent_drafter: bool = False
    windowed_drafter: bool = False
    context_parallel: bool = False
    k0: K0 = K0.AUTO
    pipeline_parallel_size: int = 1

    @property
    def version(self) -> Version | None:
        """Major and minor number of the release; None for a build without them."""
        with suppress(ValueError):
            return parse_version(self.engine_version)
        return None


def abilities(facts: VllmFacts, *, has_table: bool, counted: bool) -> Abilities:
    """What keeps this engine from what the control would do.

    has_table: it was launched with a schedule. counted: vLLM sums up its drafts.
    """
    return Abilities(
        live_tuning=obstacle(facts, has_table=has_table),
        fast_loop=fast_loop_obstacle(facts, counted=counted),
        idle_drafter=why_drafter_runs(facts),
        profile=profile_obstacle(facts),
        refused_k=refused_k(facts),
    )


def lookup_after_launch(facts: VllmFacts, candidates: str | None) -> list[int] | None:
    """The lookup of an engine launched without a schedule: each candidate once, the maximum elsewhere.

    With a schedule in its configuration, vLLM drops full CUDA graphs on the V1 runner. They exist for the K
    of the launch only, so steps of another K run piecewise. Only the scheduler reads the schedule.

    None without candidates, or where this engine cannot change K.

    Raises:
        ValueError: the candidates are not a list of K for this engine.
    """
    if not candidates or facts.runner is not Runner.V1 or obstacle(facts, has_table=True) is not None:
        return None
    falling = sorted({int(word) for word in candidates.split(",")}, reverse=True)
    largest, widest = facts.num_speculative_tokens, facts.max_num_seqs - len(falling) + 1
    if falling[0] != largest or falling[-1] < 0 or widest < 1:
        raise ValueError(
            f"{CANDIDATES_VARIABLE}={candidates}: up to {facts.max_num_seqs} numbers from 0 to {largest}, "
            "the K of the launch, which has to be among them"
        )
    return [0, *[largest] * widest, *falling[1:]]


READ_STATES = tuple(method.value for method, traits in TRAITS.items() if traits.reads_states)
"""Their drafters read the target's hidden states besides the text."""

_SKIP_TESTED = tuple(method.value for method, traits in TRAITS.items() if traits.skip_tested)

V2_SKIP_SINCE: Version = (0, 32)
"""The first version whose V2 runner gives the K of a step to its drafter."""


def why_drafter_runs(facts: VllmFacts) -> str | None:
    """Why the drafter of this engine runs in steps with K=0; None where they skip it."""
    if facts.k0 is K0.SYNC:
        return "tuning.k0 is Sync"
    if (obstacle := skip_obstacle(facts)) is not None:
        return obstacle
    tested = facts.runner is Runner.V2 or not facts.async_scheduling
    tested = tested and not facts.adaptive_verification
    if facts.k0 is K0.SKIP or (facts.method in _SKIP_TESTED and tested):
        return None
    return f"skipping it is not tested for method {facts.method} on the {facts.runner} runner as launched"


def skip_obstacle(facts: VllmFacts) -> str | None:
    """Why no step may skip the drafter of this engine; None when it can catch up.

    A draft model needs the text alone. EAGLE and MTP need the target's hidden states besides, which are kept
    by their place in the KV cache. Of several layers each reads what the one before it made.
    """
    return next(chain(_obstacles_of_drafter(facts), _obstacles_of_engine(facts)), None)


def _obstacles_of_drafter(facts: VllmFacts) -> Iterator[str]:
    if facts.method in methods_with(kind=Kind.TEXT):
        yield f"method {facts.method} searches the text, without a model that could be skipped"
    if facts.method not in ("draft_model", *READ_STATES):
        yield f"a drafter of method {facts.method} cannot catch up"
    if facts.parallel_drafting:
        yield "a drafter that drafts in parallel cannot catch up"
    if facts.several_modules:
        yield "a drafter of several modules cannot catch up"
    if facts.windowed_drafter:
        yield "vLLM frees what its attention window has passed, so the drafter cannot catch up"
    if facts.recurrent_drafter:
        yield "the drafter carries a state from token to token, so it cannot catch up"


def _obstacles_of_engine(facts: VllmFacts) -> Iterator[str]:
    if facts.version is None or facts.version not in VERSIONS:
        yield f"vLLM {facts.engine_version} was not checked for it"
    elif facts.runner is Runner.V2 and facts.version < V2_SKIP_SINCE:
        yield f"the V2 runner of vLLM {facts.engine_version} gives no K to its drafter; 0.32 and later do"
    if facts.simulated is not None:
        yield "the engine is simulated"
    if facts.runner is Runner.V1 and facts.async_scheduling and facts.method in READ_STATES:
        yield "on the V1 runner an asynchronous scheduler does not know which hidden states to keep"
    if facts.data_parallel_size > 1:
        yield "ranks of data parallelism run their drafters together"
    if facts.pipeline_parallel_size > 1:
        yield "with pipeline parallelism it is not tested"
    if facts.context_parallel:
        yield "with context parallelism each rank has a part of the KV cache only"
    if facts.shares_cache:
        yield "other engines would get a KV cache with gaps"
    if facts.multimodal:
        yield "a drafter cannot catch up on images"


def refused_k(facts: VllmFacts) -> dict[int, str]:
    """K with which this release answers wrongly, and why; empty where none is known.

    That is 0, which makes steps without drafts. A drafter that searches the text makes such steps whenever it
    finds nothing. There every other K is refused, and answers are right because no draft is ever accepted.
    """
    version = facts.version
    if not facts.recurrent or version is None or version >= RECURRENT_STATES_RIGHT:
        return {}
    why = (
        f"in a step without drafts after accepted ones vLLM {facts.engine_version} reads a stale recurrent "
        "state, so answers would be wrong; use 0.32 or later"
    )
    searches = facts.method in methods_with(kind=Kind.TEXT)
    return dict.fromkeys(range(1, facts.num_speculative_tokens + 1) if searches else (0,), why)


def obstacle(facts: VllmFacts, *, has_table: bool) -> str | None:
    """Why this engine cannot change K while it runs; None when it can."""
    if facts.method is None:
        return "the engine was launched without speculation"
    if facts.data_parallel_size > 1:
        return data_parallel_obstacle(facts.data_parallel_size)
    version = facts.version
    if version not in VERSIONS:
        return f"vLLM {facts.engine_version} was not checked for live tuning"
    name = variant(
        facts.method, parallel_drafting=facts.parallel_drafting, several_modules=facts.several_modules
    )
    if k_control(name, facts.runner, version, plugin=True) is KControl.ONE_K:
        answer = response(name, facts.runner, version)
        return _OBSTACLES[answer].format(method=name, runner=facts.runner, version=facts.engine_version)
    if not has_table:
        return "the engine was launched without num_speculative_tokens_per_batch_size"
    return None


def fast_loop_obstacle(facts: VllmFacts, *, counted: bool) -> str | None:
    """Why an engine whose table can change takes no cost model; None where it does.

    counted: vLLM sums up its drafts.
    """
    if not counted:
        return "steps are not counted, as under --disable-log-stats"
    if facts.pipeline_parallel_size > 1:
        return "with pipeline parallelism the fast loop is not tested"
    return None


def profile_obstacle(facts: VllmFacts) -> str | None:
    """Why a startup profile would mislead the tuner; None where it would not."""
    if facts.adaptive_verification:
        return (
            "adaptive verification decides by the text how much a step verifies, so requests of a profile "
            "would mislead. The tuner learns step times from the steps of clients"
        )
    return None


def data_parallel_obstacle(size: int) -> str:
    """Why an engine of several data-parallel ranks cannot change K."""
    return f"vLLM drops the table under data parallelism (size {size})"
