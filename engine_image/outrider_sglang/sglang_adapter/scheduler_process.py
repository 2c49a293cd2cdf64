"""Attaches the control to the scheduler of this process: one rank of a tensor-parallel group.

Every rank must draft the same K in a round, or the group hangs. Leases, probes and pushes begin and end by
the clock of one rank, so rank 0 decides. Its lookup travels with the requests that SGLang broadcasts to all
ranks before each round. Each rank uses it from that round on.

Source: SGLang 0.5.23, `sglang.srt.managers.scheduler`, `.scheduler_components.request_receiver` and
`sglang.srt.speculative.adaptive_spec_params`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from outrider_engine.control.core import EngineCoreControl
from outrider_engine.control.settings import measures_at_start, read_static_schedule
from outrider_engine.counting.measure import Meter
from outrider_engine.http.termination_message import leave, words_of
from outrider_sglang.sglang_adapter.channel import is_ours, run_verb
from outrider_sglang.sglang_adapter.hooks import Hook, register_hooks, unapplied
from outrider_sglang.sglang_adapter.launch_facts import Launch, abilities, launch_of, lookup_at_launch
from outrider_sglang.sglang_adapter.round_hooks import RoundHooks
from outrider_sglang.sglang_adapter.scheduler import Scheduler

logger = logging.getLogger("sglang.outrider")

MODULE = "sglang.srt.managers.scheduler"
_SCHEDULER = f"{MODULE}.Scheduler"
_RECEIVER = "sglang.srt.managers.scheduler_components.request_receiver.SchedulerRequestReceiver"
_POLICY = "sglang.srt.speculative.adaptive_spec_params.AdaptiveSpeculativeParams"


@dataclass(frozen=True, slots=True)
class LookupOrder:
    """A lookup on its way from rank 0 to every rank of the group, itself included."""

    lookup: list[int]

    def reach(self, scheduler: Scheduler) -> None:
        """Put the lookup in force on this rank."""
        scheduler.adopt(self.lookup)


@dataclass(frozen=True, slots=True)
class Rank:
    """The control of this process. hooks: of the rank that leads; None on the others."""

    scheduler: Scheduler
    candidates: frozenset[int]
    hooks: RoundHooks | None

    def steps(self, batch_size: int) -> int | None:
        """K of the next round by its number of requests; None where SGLang's own policy decides.

        Never a K without a state, which would end the engine.
        """
        lookup = self.scheduler.in_force
        if lookup is None or batch_size < 1:
            return None
        k = lookup[min(batch_size, len(lookup) - 1)]
        return k if k in self.candidates else None

    def order(self) -> LookupOrder | None:
        """The lookup that the other ranks must get before the next round; None without a new one."""
        if self.hooks is None:
            return None
        self.hooks.control.before_schedule()
        lookup = self.scheduler.unsent()
        return None if lookup is None else LookupOrder(lookup)


@dataclass(slots=True)
class _Process:
    """What this process has; it has one scheduler at most. failure: why it has no control."""

    rank: Rank | None = None
    failure: str = "this scheduler has no control"


_process = _Process()


def attach_to_scheduler() -> None:
    """Hook the scheduler, in processes that run one. Others would import it for nothing.

    Raises:
        ImportError, AttributeError: this SGLang has no registry of hooks.
    """
    if MODULE in sys.modules:
        register_hooks(HOOKS)


def rank_of(scheduler: Any) -> Rank:
    """The control of a new scheduler. Raises where the engine has another shape."""
    launch = launch_of(scheduler)
    ours = Scheduler(scheduler, lookup_at_launch(launch), fixed_k=launch.fixed_k, alone=launch.ranks == 1)
    return Rank(ours, launch.candidates, RoundHooks(ours, _control(ours, launch)) if launch.leads else None)


def _control(scheduler: Scheduler, launch: Launch) -> EngineCoreControl:
    facts = launch.facts
    counted = bool(launch.candidates) or launch.fixed_k is not None
    meter = Meter(facts.max_num_seqs, facts.num_speculative_tokens, drafts_ahead=facts.drafts_ahead)
    control = EngineCoreControl(
        scheduler,
        facts,
        abilities(launch, unhooked=unapplied(HOOKS)),
        read_static=read_static_schedule,
        meter=meter if counted else None,
        measuring=measures_at_start(),
    )
    for target in unapplied(HOOKS):
        control.hook_missing(target)
    return control


def _init(original: Callable[..., None], scheduler: Any, *args: Any, **kwargs: Any) -> None:
    try:
        original(scheduler, *args, **kwargs)
    except Exception as error:
        leave(words_of(error))
        raise
    try:
        _process.rank = rank_of(scheduler)
    except Exception as error:
        _process.failure = f"the plugin failed at the start: {type(error).__name__}: {error}"
        logger.exception(
            "outrider: no live control, since this SGLang has another shape; the engine continues to serve"
        )


def _run_event_loop(original: Callable[..., None], scheduler: Any) -> None:
    try:
        original(scheduler)
    except Exception as error:
        leave(words_of(error))
        raise


def _pull_raw_reqs(original: Callable[..., Any], receiver: Any) -> Any:
    requests, rank = original(receiver), _process.rank
    # The other ranks have None here, and get the requests of this one.
    order = None if requests is None or rank is None else rank.order()
    if order is not None:
        requests.append(order)
    return requests


def _process_input_requests(original: Callable[..., Any], scheduler: Any, requests: Any) -> Any:
    if requests and any(isinstance(request, LookupOrder) for request in requests):
        for request in requests:
            if isinstance(request, LookupOrder) and _process.rank is not None:
                request.reach(_process.rank.scheduler)
        requests = [request for request in requests if not isinstance(request, LookupOrder)]
    return original(scheduler, requests)


def _run_batch(original: Callable[..., Any], scheduler: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
    hooks = _leading_hooks()
    if hooks is None:
        return original(scheduler, batch, *args, **kwargs)
    launching = hooks.launching(batch)
    result = original(scheduler, batch, *args, **kwargs)
    hooks.launched(launching, result)
    return result


def _process_batch_result(original: Callable[..., Any], scheduler: Any, batch: Any, result: Any) -> Any:
    hooks = _leading_hooks()
    if hooks is None:
        return original(scheduler, batch, result)
    reading = hooks.reading(batch)
    answer = original(scheduler, batch, result)
    hooks.finished(reading, result)
    return answer


def _handle_dumper_control(original: Callable[..., Any], scheduler: Any, request: Any) -> Any:
    if not is_ours(request):
        return original(scheduler, request)
    hooks = _leading_hooks()
    # The other ranks of the group get the request, too, and have no one to answer.
    if hooks is not None or _process.rank is None:
        run_verb(hooks.control if hooks else None, _process.failure, scheduler, request)
    return None


def _get_steps_for_batch(original: Callable[..., int], policy: Any, batch_size: int) -> int:
    k = None if _process.rank is None else _process.rank.steps(batch_size)
    return original(policy, batch_size) if k is None else k


def _on_verify_complete(
    original: Callable[..., int | None], policy: Any, num_correct_drafts_per_req: Any, batch_size: int
) -> int | None:
    """SGLang's own estimate stays as it is: it would change K."""
    if _process.rank is None:
        return original(policy, num_correct_drafts_per_req, batch_size)
    return None


def _leading_hooks() -> RoundHooks | None:
    return None if _process.rank is None else _process.rank.hooks


HOOKS = (
    Hook(f"{_SCHEDULER}.__init__", _init),
    Hook(f"{_SCHEDULER}.run_event_loop", _run_event_loop),
    Hook(f"{_SCHEDULER}.process_input_requests", _process_input_requests),
    Hook(f"{_SCHEDULER}.run_batch", _run_batch),
    Hook(f"{_SCHEDULER}.process_batch_result", _process_batch_result),
    Hook(f"{_SCHEDULER}.handle_dumper_control", _handle_dumper_control),
    Hook(f"{_RECEIVER}._pull_raw_reqs", _pull_raw_reqs),
    Hook(f"{_POLICY}.get_steps_for_batch", _get_steps_for_batch),
    Hook(f"{_POLICY}.on_verify_complete", _on_verify_complete),
)
"""All hooks of a scheduler's process."""
