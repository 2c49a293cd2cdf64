"""Attaches the control to vLLM's engine core and its scheduler.

Source: vLLM 0.32.0. `vllm.v1.engine.core.EngineCore` runs utility calls on the engine's thread between steps,
by a ``getattr`` dispatch. ``step`` schedules, runs and updates one after the other. ``step_with_batch_queue``
schedules the next step before it updates from the last. ``post_step`` takes the drafts from the workers.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from outrider_engine.control.core import EngineCoreControl
from outrider_engine.control.limit_rules import LimitRules, limits_file
from outrider_engine.control.settings import measures_at_start, read_static_schedule
from outrider_engine.control.verbs import answer
from outrider_engine.counting.measure import Meter
from outrider_engine.vllm_adapter.engine_config import facts_of
from outrider_engine.vllm_adapter.scheduler import ScheduledStep, Scheduler
from outrider_engine.vllm_adapter.step_hooks import StepHooks
from outrider_engine.vllm_adapter.support import abilities, lookup_after_launch
from outrider_engine.vllm_adapter.wrapping import wrap
from outrider_protocol.environment import CANDIDATES_VARIABLE, K0_VARIABLE
from outrider_protocol.methods import K0

logger = logging.getLogger("vllm.outrider")

UTILITY_METHOD = "outrider_run"
"""Method of the engine core that runs every verb."""

_HOOKS = "_outrider_hooks"
_FAILURE = "_outrider_failure"


def attach_to_engine_core() -> None:
    """Add the utility method to the engine core and wrap the scheduler. Repeated calls have no effect.

    Raises:
        ImportError, AttributeError: this vLLM lacks a class or method that the plugin needs.
    """
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine.core import EngineCore

    attach(EngineCore, Scheduler)


def attach(engine_core: Any, scheduler: Any) -> None:
    """`attach_to_engine_core` on given classes."""
    wrap(scheduler, "__init__", _with_control)
    wrap(scheduler, "add_request", _with_request_hook)
    wrap(scheduler, "schedule", _with_schedule_hook)
    wrap(scheduler, "update_from_output", _with_update_hook)
    wrap(engine_core, "post_step", _with_drafts_asked_for)
    setattr(engine_core, UTILITY_METHOD, _run_verb)


def _run_verb(engine_core: Any, verb: str, payload: object) -> dict[str, object]:
    """The utility method. Every step is counted before the verb runs."""
    hooks: StepHooks | None = getattr(engine_core.scheduler, _HOOKS, None)
    if hooks is not None:
        hooks.control.backlog.work_off()
        return answer(hooks.control, "", verb, payload)
    failure = getattr(engine_core.scheduler, _FAILURE, None)
    why = f"the plugin failed at the start: {failure}" if failure else "this scheduler has no control"
    return answer(None, why, verb, payload)


def hooks_for(scheduler: Any) -> StepHooks:
    """The control of a new scheduler, with its hooks. Raises where the engine has another shape."""
    k0 = K0(os.environ.get(K0_VARIABLE, K0.AUTO))
    facts, ours = replace(facts_of(scheduler.vllm_config), k0=k0), Scheduler(scheduler)
    if ours.lookup is None:
        ours.lookup = lookup_after_launch(facts, os.environ.get(CANDIDATES_VARIABLE))
    able = abilities(facts, has_table=ours.lookup is not None, counted=ours.sums_up_drafts)
    drafter_skip = ours.drafter_skip() if able.idle_drafter is None else None
    control = EngineCoreControl(
        ours,
        facts,
        able,
        read_static=read_static_schedule,
        meter=Meter(facts.max_num_seqs, facts.num_speculative_tokens) if ours.sums_up_drafts else None,
        measuring=measures_at_start(),
        drafter_skip=drafter_skip,
        limit_rules=LimitRules(limits_file(os.environ)),
    )
    hooks = StepHooks(ours, control)
    if facts.adaptive_verification or control.adapter_drafts.active:
        hooks.write_down_drafts()
    if drafter_skip is not None and drafter_skip.reads_states:
        ours.withhold_unread(control.idle_drafter.unread)
    return hooks


def _with_control(original: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            setattr(self, _HOOKS, hooks_for(self))
        except Exception as error:
            setattr(self, _FAILURE, f"{type(error).__name__}: {error}")
            logger.exception(
                "outrider: no live control, since this vLLM has another shape; the engine continues to serve"
            )

    return init


def _with_request_hook(original: Callable[..., None]) -> Callable[..., None]:
    def add_request(self: Any, request: Any, *args: Any, **kwargs: Any) -> None:
        original(self, request, *args, **kwargs)
        hooks: StepHooks | None = getattr(self, _HOOKS, None)
        # Pooling models have no sampling parameters.
        if hooks is not None and request.sampling_params is not None:
            hooks.request_added(request)
            hooks.adapter_requested(request)

    return add_request


def _with_schedule_hook(original: Callable[..., Any]) -> Callable[..., Any]:
    def schedule(self: Any, *args: Any, **kwargs: Any) -> Any:
        hooks: StepHooks | None = getattr(self, _HOOKS, None)
        if hooks is None:
            return original(self, *args, **kwargs)
        hooks.before_schedule()
        output = original(self, *args, **kwargs)
        hooks.scheduled(ScheduledStep(self, output))
        return output

    return schedule


def _with_update_hook(original: Callable[..., Any]) -> Callable[..., Any]:
    def update_from_output(self: Any, scheduler_output: Any, model_runner_output: Any) -> Any:
        hooks: StepHooks | None = getattr(self, _HOOKS, None)
        if hooks is not None:
            hooks.reading(scheduler_output)
        result = original(self, scheduler_output, model_runner_output)
        if hooks is not None:
            hooks.finished(scheduler_output, model_runner_output, result)
        return result

    return update_from_output


def _with_drafts_asked_for(original: Callable[..., None]) -> Callable[..., None]:
    def post_step(self: Any, *args: Any, **kwargs: Any) -> None:
        hooks: StepHooks | None = getattr(self.scheduler, _HOOKS, None)
        # A request for drafts is a call to another process, if the worker lives in one.
        if hooks is None or not hooks.drafter_left_out:
            original(self, *args, **kwargs)

    return post_step
