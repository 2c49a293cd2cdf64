"""What an engine was launched with and what it cannot do, read from SGLang's scheduler.

Source: SGLang 0.5.23, `sglang.srt.managers.scheduler.Scheduler` and `sglang.srt.server_args.ServerArgs`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outrider_engine.control.engine_facts import Abilities, EngineFacts, Room
from outrider_protocol.methods import Method
from outrider_protocol.sglang_releases import ADAPTIVE_SINCE, ALGORITHMS, RELEASES, parse_release

SIMULATED_VARIABLE = "OUTRIDER_SIMULATED"
"""Source of the step times of a simulated engine; unset in a real one."""
OPEN_ROUTE_VARIABLE = "DUMPER_SERVER_PORT"
"""With the value ``reuse``, SGLang's HTTP server passes unsigned requests to the channel of the verbs."""

_CHAINS = (Method.EAGLE, Method.EAGLE3, Method.MTP, Method.DRAFT_MODEL, Method.DFLASH)
"""Methods whose drafts are one chain, so that an accepted number says which positions were accepted."""
_DRAFTER_RUNS = "SGLang runs its drafter in every round, which keeps the KV cache of the drafter complete"


@dataclass(frozen=True, slots=True)
class Launch:
    """One rank of an engine as SGLang launched it.

    candidates: steps for which SGLang's adaptive mode has built a state; empty without that mode.
    fixed_k: the K of an engine without that mode; None where its drafts form another shape than a chain.
    ranks: of the tensor-parallel group; rank 0 leads it.
    """

    facts: EngineFacts
    candidates: frozenset[int]
    fixed_k: int | None
    rank: int
    ranks: int
    data_parallel_size: int
    pipeline_parallel_size: int
    disaggregated: bool

    @property
    def leads(self) -> bool:
        """Whether this rank decides the K of all ranks."""
        return self.rank == 0


def launch_of(scheduler: Any) -> Launch:
    """Read a scheduler that was just made."""
    from sglang.version import __version__

    args, worker = scheduler.server_args, scheduler.draft_worker
    method, candidates = _method(args), _candidates(worker)
    topk = getattr(args, "speculative_eagle_topk", None)
    chain = method in _CHAINS and topk in (None, 1)
    fixed_k = int(worker.speculative_num_draft_tokens) - 1 if chain and not candidates else None
    rank, ranks = _rank()
    longest = max(candidates, default=fixed_k or 0)
    facts = EngineFacts(
        engine_version=__version__,
        method=method,
        runner=None,
        max_num_seqs=int(scheduler.max_running_requests),
        num_speculative_tokens=longest,
        simulated=os.environ.get(SIMULATED_VARIABLE),
        room=Room(int(scheduler.model_config.context_len) - longest - 1, int(scheduler.max_total_num_tokens)),
        drafts_ahead=False,
    )
    return Launch(
        facts,
        candidates,
        fixed_k,
        rank,
        ranks,
        data_parallel_size=int(args.dp_size),
        pipeline_parallel_size=int(args.pp_size),
        disaggregated=args.disaggregation_mode != "null",
    )


def abilities(launch: Launch, *, unhooked: Sequence[str]) -> Abilities:
    """What keeps this engine from what the control would do.

    unhooked: targets of the plugin's hooks that SGLang could not hook.
    """
    return Abilities(
        live_tuning=_obstacle(launch, unhooked),
        fast_loop=_fast_loop_obstacle(launch),
        idle_drafter=_DRAFTER_RUNS,
    )


def lookup_at_launch(launch: Launch) -> list[int] | None:
    """K by batch size until a schedule is in force: each candidate once, the maximum elsewhere.

    All ranks get the same one. None without SGLang's adaptive mode.

    Raises:
        ValueError: there are more candidates than batch sizes.
    """
    if not launch.candidates:
        return None
    falling = sorted(launch.candidates, reverse=True)
    size = launch.facts.max_num_seqs
    if len(falling) > size:
        raise ValueError(f"{len(falling)} candidates need an engine with as many requests, and it has {size}")
    return [0, *[falling[0]] * (size - len(falling) + 1), *falling[1:]]


def several_ranks_obstacle(size: int) -> str:
    """Why an engine of several data-parallel ranks cannot change K."""
    return (
        f"live tuning of SGLang's data-parallel ranks is not tested (size {size}). To tune, use replicas in "
        "their place"
    )


def is_route_open() -> bool:
    """Whether clients of the engine's port can reach the channel of the verbs without a signature."""
    return os.environ.get(OPEN_ROUTE_VARIABLE) == "reuse"


def _obstacle(launch: Launch, unhooked: Sequence[str]) -> str | None:
    version, method = launch.facts.engine_version, launch.facts.method
    if method is None:
        return "the engine was launched without speculation"
    if version not in RELEASES:
        return f"SGLang {version} was not checked for live tuning. To tune, use one of {', '.join(RELEASES)}"
    if unhooked:
        return f"SGLang {version} has no {' and no '.join(unhooked)}, by which the plugin changes K"
    if launch.data_parallel_size > 1:
        return several_ranks_obstacle(launch.data_parallel_size)
    if launch.pipeline_parallel_size > 1:
        return "only the last pipeline stage of SGLang drafts, so K cannot change. To tune, use one stage"
    if launch.disaggregated:
        return "live tuning of an engine with prefill and decode apart is not tested"
    if is_route_open():
        return f"{OPEN_ROUTE_VARIABLE}=reuse lets unsigned requests change K. To tune, remove the variable"
    if not launch.candidates:
        return _not_adaptive(version, method)
    return None


def _not_adaptive(version: str, method: str) -> str:
    since = ADAPTIVE_SINCE.get(Method(method)) if method in list(Method) else None
    if since is None or parse_release(version) < since:
        return f"SGLang {version} has no adaptive mode for method {method}, so it keeps the K of its launch"
    return (
        "SGLang runs without its adaptive mode, so it keeps the K of its launch. Where the launch has "
        "--speculative-adaptive, SGLang's log says at the start why it turned the mode off"
    )


def _fast_loop_obstacle(launch: Launch) -> str | None:
    if launch.ranks > 1:
        return "the fast loop would choose on each tensor-parallel rank apart, and all must draft the same K"
    return None


def _method(args: Any) -> str | None:
    """Outrider's name of the method. SGLang may have replaced NEXTN by EAGLE, which it runs alike."""
    algorithm = args.speculative_algorithm
    if algorithm is None:
        return None
    names = {name: method.value for method, name in ALGORITHMS.items()}
    return names.get(str(algorithm).upper(), str(algorithm).lower())


def _candidates(worker: Any) -> frozenset[int]:
    controller = getattr(worker, "adaptive_controller", None)
    return frozenset() if controller is None else frozenset(map(int, controller.candidate_steps))


def _rank() -> tuple[int, int]:
    """Rank in the group of this scheduler, and its size. Each data-parallel rank has a group of its own."""
    from torch import distributed

    if not distributed.is_initialized():
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()
