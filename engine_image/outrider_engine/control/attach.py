"""Attaches the control to vLLM's own classes. The only module that knows the inner names of its engine core.

Source: vLLM 0.32.0. `vllm.v1.engine.core.EngineCore` runs utility calls on the engine's thread between steps,
by a ``getattr`` dispatch. ``step`` schedules, runs and updates one after the other. ``step_with_batch_queue``
schedules the next step before it updates from the last. ``post_step`` takes the drafts from the workers.
`vllm.v1.core.sched.scheduler.Scheduler`: ``schedule`` reads ``dynamic_sd_lookup`` once per step, and
``update_from_output`` gives the tokens of each request, and vLLM's own sums over drafts.
"""

from __future__ import annotations

import functools
import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from outrider_engine.control.core import EngineCoreControl
from outrider_engine.control.deferred_schedule import CANDIDATES_VARIABLE, lookup_after_launch
from outrider_engine.control.parsing import parse_schedule
from outrider_engine.control.probe import parse_probe
from outrider_engine.control.push import parse_push
from outrider_engine.control.refusal import Refusal
from outrider_engine.control.self_test import Trial
from outrider_engine.control.startup_profile import Visit
from outrider_engine.control.state import Measurement, unavailable, unmeasured
from outrider_engine.control.step_hooks import (
    choice_scheduled,
    choice_verified,
    count_schedule,
    count_update,
    given_by,
)
from outrider_engine.control.support import K0, K0_VARIABLE, EngineFacts, Room, skips
from outrider_engine.counting.measure import Meter
from outrider_engine.http.request import parse_measuring
from outrider_engine.idle_drafter.attach import attach_to_workers
from outrider_engine.idle_drafter.drafter import ORDER
from outrider_engine.idle_drafter.drafter_skip import Following
from outrider_engine.vllm_adapter.scheduler_step import SchedulerStep, following_of, withhold_unread
from outrider_protocol.control_api import Reason
from outrider_protocol.engine_state import State
from outrider_protocol.releases import Runner
from outrider_protocol.schedule import Schedule

logger = logging.getLogger("vllm.outrider")

STATIC_SCHEDULE_VARIABLE = "OUTRIDER_STATIC_SCHEDULE_FILE"
MEASURE_VARIABLE = "OUTRIDER_MEASURE"

SIMULATED = "simulated"
"""In vLLM's ``additional_config``: set by a platform whose engines compute nothing."""

_CONTROL = "_outrider_control"
_FAILURE = "_outrider_failure"


def attach_to_vllm() -> None:
    """Add the utility methods to the engine core and wrap the scheduler. Repeated calls have no effect.

    Raises:
        ImportError, AttributeError: this vLLM lacks a class or method that the plugin needs.
    """
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine.core import EngineCore

    attach(EngineCore, Scheduler)
    attach_to_workers()


def attach(engine_core: Any, scheduler: Any) -> None:
    """`attach_to_vllm` on given classes."""
    if "outrider_get_state" in vars(engine_core):
        return
    init, schedule, update = scheduler.__init__, scheduler.schedule, scheduler.update_from_output
    for method in (
        outrider_get_state,
        outrider_get_measurement,
        outrider_longest_step_seconds,
        outrider_put_schedule,
        outrider_post_probe,
        outrider_put_measuring,
        outrider_begin_self_test,
        outrider_begin_trial,
        outrider_end_trial,
        outrider_end_self_test,
        outrider_begin_sweep,
        outrider_begin_visit,
        outrider_visiting,
        outrider_end_visit,
        outrider_end_sweep,
    ):
        setattr(engine_core, method.__name__, method)
    scheduler.__init__ = _with_control(init)
    scheduler.schedule = _with_schedule_hook(schedule)
    scheduler.update_from_output = _with_update_hook(update)
    engine_core.post_step = _with_drafts_asked_for(engine_core.post_step)


# Utility methods of the engine core. Those that may be refused answer ``{"state": …}``, or
# ``{"error": …}`` when nothing was changed.


def outrider_get_state(engine_core: Any) -> State:
    """The state of this engine."""
    control = _control_of(engine_core)
    return unavailable(_why_no_control(engine_core)) if control is None else control.state_with_step_times()


def outrider_get_measurement(engine_core: Any) -> Measurement:
    """What this engine has counted."""
    control = _control_of(engine_core)
    return unmeasured(_why_no_control(engine_core)) if control is None else control.measurement()


def outrider_longest_step_seconds(engine_core: Any) -> float:
    """How long the longest step of this engine took; 0 where steps are not counted."""
    control = _control_of(engine_core)
    return 0.0 if control is None else control.longest_step_seconds


def outrider_put_schedule(
    engine_core: Any, body: dict[str, object], cost_model_fault: str | None = None
) -> dict[str, object]:
    """Install a pushed schedule. cost_model_fault: see `Push.cost_model_fault`."""

    def put(control: EngineCoreControl) -> State:
        push = parse_push(body)
        return control.put(replace(push, cost_model_fault=cost_model_fault) if cost_model_fault else push)

    return _answer(engine_core, put)


def outrider_post_probe(engine_core: Any, body: dict[str, object]) -> dict[str, object]:
    """Start a probe."""
    return _answer(engine_core, lambda control: control.start_probe(parse_probe(body)))


def outrider_put_measuring(engine_core: Any, body: dict[str, object]) -> dict[str, object]:
    """Count steps, or pause the counting."""
    return _answer(engine_core, lambda control: control.measure(enabled=parse_measuring(body)))


def outrider_begin_self_test(engine_core: Any) -> list[Trial]:
    """Begin the self-test; its requests."""
    control = _control_of(engine_core)
    return [] if control is None else control.begin_self_test()


def outrider_begin_trial(engine_core: Any, k: int) -> None:
    """Begin the request of one K."""
    if control := _control_of(engine_core):
        control.begin_trial(k)


def outrider_end_trial(
    engine_core: Any, k: int, tokens: list[int], fault: str | None, tied: bool = False
) -> None:
    """End the request of one K."""
    if control := _control_of(engine_core):
        control.end_trial(k, tokens=tokens, fault=fault, tied=tied)


def outrider_end_self_test(engine_core: Any, fault: str | None) -> None:
    """End the self-test."""
    if control := _control_of(engine_core):
        control.end_self_test(fault)


def outrider_begin_sweep(engine_core: Any, seconds: float) -> list[Visit]:
    """Begin the startup profile; its visits."""
    control = _control_of(engine_core)
    return [] if control is None else control.begin_sweep(seconds)


def outrider_begin_visit(engine_core: Any, batch: int, context: int) -> None:
    """Begin one visit of the startup profile."""
    if control := _control_of(engine_core):
        control.begin_visit(batch, context)


def outrider_visiting(engine_core: Any) -> bool:
    """Whether the visit has parts left."""
    control = _control_of(engine_core)
    return control is not None and control.visiting


def outrider_end_visit(engine_core: Any) -> None:
    """End one visit of the startup profile."""
    if control := _control_of(engine_core):
        control.end_visit()


def outrider_end_sweep(engine_core: Any, fault: str | None) -> None:
    """End the startup profile."""
    if control := _control_of(engine_core):
        control.end_sweep(fault)


def facts_of(scheduler: Any) -> EngineFacts:
    """What the engine was launched with, read from its own configuration."""
    import vllm

    config = scheduler.vllm_config
    graphs = config.compilation_config.cudagraph_mode
    speculation, extra = config.speculative_config, config.additional_config
    model = config.model_config
    return EngineFacts(
        engine_version=vllm.__version__,
        method=None if speculation is None else speculation.method,
        runner=Runner.V2 if config.use_v2_model_runner else Runner.V1,
        max_num_seqs=config.scheduler_config.max_num_seqs,
        num_speculative_tokens=0 if speculation is None else speculation.num_speculative_tokens,
        data_parallel_size=config.parallel_config.data_parallel_size,
        pipeline_parallel_size=config.parallel_config.pipeline_parallel_size,
        parallel_drafting=bool(speculation and speculation.parallel_drafting),
        several_modules=_drafts_with_several_modules(speculation),
        simulated=extra.get(SIMULATED) if isinstance(extra, dict) else None,
        async_scheduling=bool(config.scheduler_config.async_scheduling),
        multimodal=bool(model.is_multimodal_model),
        recurrent=_is_recurrent(model),
        shares_cache=config.kv_transfer_config is not None,
        cuda_graphs=graphs.name if graphs else None,
        room=_room(config),
    )


def _is_recurrent(model: Any) -> bool:
    """vLLM decides by the class of the model. In a release with other names the self-test finds it."""
    names = ("is_hybrid", "is_attention_free", "has_inner_state")
    return any(bool(getattr(model, name, False)) for name in names)


def _drafts_with_several_modules(speculation: Any) -> bool:
    """Older releases have no such model."""
    asked = getattr(speculation, "use_multi_module_mtp", None)
    return asked is not None and bool(asked())


def _room(config: Any) -> Room | None:
    """None in a release with other names, which then has no startup profile."""
    model: Any = getattr(config, "model_config", None)
    cache: Any = getattr(config, "cache_config", None)
    request, blocks = getattr(model, "max_model_len", None), getattr(cache, "num_gpu_blocks", None)
    if not (request and blocks):
        return None
    return Room(request, getattr(cache, "kv_cache_size_tokens", None) or blocks * cache.block_size)


def read_static_table() -> Schedule | None:
    """The static schedule of the configured file; None when no file is configured.

    Raises:
        OSError: the file cannot be read.
        Refusal: it holds no schedule.
    """
    path = os.environ.get(STATIC_SCHEDULE_VARIABLE)
    if not path:
        return None
    try:
        return parse_schedule(json.loads(Path(path).read_bytes()))
    except ValueError as error:
        raise Refusal(Reason.MALFORMED, f"{path} is not JSON") from error


def control_for(scheduler: Any) -> EngineCoreControl:
    """The control of a new scheduler. Raises where the engine has another shape."""
    facts = facts_of(scheduler)
    if scheduler.dynamic_sd_lookup is None:
        scheduler.dynamic_sd_lookup = lookup_after_launch(facts, os.environ.get(CANDIDATES_VARIABLE))
    # Without vLLM's own statistics a scheduler does not sum up its drafts.
    meter = Meter(facts.max_num_seqs, facts.num_speculative_tokens) if scheduler.log_stats else None
    skipping = skips(facts, K0(os.environ.get(K0_VARIABLE, K0.AUTO)))
    control = EngineCoreControl(
        scheduler,
        facts,
        read_static=read_static_table,
        meter=meter,
        measuring=os.environ.get(MEASURE_VARIABLE) != "0",
        following=following_of(scheduler) if skipping else None,
    )
    if control.following is not None and control.following.reads_states:
        withhold_unread(scheduler, control.unread)
    return control


def _with_control(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            setattr(self, _CONTROL, control_for(self))
        except Exception as error:
            setattr(self, _FAILURE, f"{type(error).__name__}: {error}")
            logger.exception(
                "outrider: no live control, since this vLLM has another shape; the engine continues to serve"
            )

    return init


def _with_schedule_hook(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def schedule(self: Any, *args: Any, **kwargs: Any) -> Any:
        control: EngineCoreControl | None = getattr(self, _CONTROL, None)
        if control is None:
            return original(self, *args, **kwargs)
        began = perf_counter()
        control.before_schedule()
        hooked, choosing = perf_counter() - began, control.choosing
        chosen = choosing.hook_seconds
        output = original(self, *args, **kwargs)
        hooked, returned = hooked + choosing.hook_seconds - chosen, perf_counter()
        step = SchedulerStep(self, output)
        choice_scheduled(control, output)
        if control.following is not None:
            try:
                _order_drafter(step, output, control.following)
            except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
                control.following_failed(error)
        if (meter := control.meter) is not None:
            control.backlog.put(count_schedule, meter, step, output, began)
            meter.hook_seconds += hooked + perf_counter() - returned
        return output

    return schedule


def _with_update_hook(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def update_from_output(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, scheduler_output, *args, **kwargs)
        control: EngineCoreControl | None = getattr(self, _CONTROL, None)
        if control is not None and (meter := control.meter) is not None:
            ended = perf_counter()
            try:
                given = given_by(result, work_left=self.has_unfinished_requests(), ended=ended)
            except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
                control.measuring_failed(error)
            else:
                choice = choice_verified(control, scheduler_output, given.drafts)
                control.backlog.put(count_update, control, meter, scheduler_output, given, choice)
                if control.backlog.is_full or not control.at_rest:
                    control.backlog.work_off()
            meter.hook_seconds += perf_counter() - ended
        return result

    return update_from_output


def _with_drafts_asked_for(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def post_step(self: Any, *args: Any, **kwargs: Any) -> None:
        control: EngineCoreControl | None = getattr(self.scheduler, _CONTROL, None)
        # A request for drafts is a call to another process, if the worker lives in one.
        if control is None or control.following is None or not control.following.left_out:
            original(self, *args, **kwargs)

    return post_step


def _order_drafter(step: SchedulerStep, output: Any, following: Following) -> None:
    order = following.scheduled(step)
    if order is not None:
        setattr(output, ORDER, order)


def _answer(engine_core: Any, change: Callable[[EngineCoreControl], State]) -> dict[str, object]:
    control = _control_of(engine_core)
    try:
        if control is None:
            raise Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, _why_no_control(engine_core))
        return {"state": change(control)}
    except Refusal as refusal:
        return {"error": refusal.to_wire()}


def _control_of(engine_core: Any) -> EngineCoreControl | None:
    """The control, with all steps counted, for a request between two steps."""
    control: EngineCoreControl | None = getattr(engine_core.scheduler, _CONTROL, None)
    if control is not None:
        control.backlog.work_off()
    return control


def _why_no_control(engine_core: Any) -> str:
    failure = getattr(engine_core.scheduler, _FAILURE, None)
    return f"the plugin failed at the start: {failure}" if failure else "this scheduler has no control"
