"""Attaches the control to vLLM's own classes. The only module that knows their inner names.

Source: vLLM 0.32.0, `vllm.v1.engine.core.EngineCore` (its ``getattr`` dispatch of utility calls runs
them on the engine's thread between steps) and `vllm.v1.core.sched.scheduler.Scheduler`, whose
``schedule`` reads ``dynamic_sd_lookup`` once per step.
"""

from __future__ import annotations

import functools
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outrider_engine.control import parse_push
from outrider_engine.core import EngineCoreControl
from outrider_engine.refusal import Reason, Refusal
from outrider_engine.state import State, unavailable
from outrider_engine.support import EngineFacts, Runner
from outrider_engine.table import Table, parse_table

logger = logging.getLogger("vllm.outrider")

STATIC_SCHEDULE_VARIABLE = "OUTRIDER_STATIC_SCHEDULE_FILE"

_CONTROL = "_outrider_control"
_FAILURE = "_outrider_failure"


def attach_to_vllm() -> None:
    """Add the utility methods to the engine core and wrap the scheduler. Once per process is enough;
    more often does no harm.

    Raises:
        ImportError, AttributeError: this vLLM lacks a class or method that the plugin stands on.
    """
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine.core import EngineCore

    attach(EngineCore, Scheduler)


def attach(engine_core: Any, scheduler: Any) -> None:
    """`attach_to_vllm` on given classes."""
    if "outrider_get_state" in vars(engine_core):
        return
    original_init, original_schedule = scheduler.__init__, scheduler.schedule
    engine_core.outrider_get_state = outrider_get_state
    engine_core.outrider_put_schedule = outrider_put_schedule
    scheduler.__init__ = _with_control(original_init)
    scheduler.schedule = _with_step_hook(original_schedule)


def outrider_get_state(engine_core: Any) -> State:
    """Utility method of the engine core: the state of this engine."""
    control = getattr(engine_core.scheduler, _CONTROL, None)
    return unavailable(_why_no_control(engine_core)) if control is None else control.state()


def outrider_put_schedule(engine_core: Any, body: dict[str, object]) -> dict[str, object]:
    """Utility method of the engine core: ``{"state": …}``, or ``{"error": …}`` when nothing was changed."""
    control = getattr(engine_core.scheduler, _CONTROL, None)
    try:
        if control is None:
            raise Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, _why_no_control(engine_core))
        return {"state": control.put(parse_push(body))}
    except Refusal as refusal:
        return {"error": refusal.to_wire()}


def facts_of(scheduler: Any) -> EngineFacts:
    """What the engine was launched with, read from its own configuration."""
    import vllm

    config = scheduler.vllm_config
    speculation = config.speculative_config
    return EngineFacts(
        engine_version=vllm.__version__,
        method=None if speculation is None else speculation.method,
        runner=Runner.V2 if config.use_v2_model_runner else Runner.V1,
        max_num_seqs=config.scheduler_config.max_num_seqs,
        num_speculative_tokens=0 if speculation is None else speculation.num_speculative_tokens,
        data_parallel_size=config.parallel_config.data_parallel_size,
    )


def read_static_table() -> Table | None:
    """The static table of the configured file; None when no file is configured.

    Raises:
        OSError: the file cannot be read.
        Refusal: it holds no table.
    """
    path = os.environ.get(STATIC_SCHEDULE_VARIABLE)
    if not path:
        return None
    try:
        return parse_table(json.loads(Path(path).read_bytes()))
    except ValueError as error:
        raise Refusal(Reason.MALFORMED, f"{path} is not JSON") from error


def _with_control(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            setattr(self, _CONTROL, EngineCoreControl(self, facts_of(self), read_static=read_static_table))
        except Exception as error:
            setattr(self, _FAILURE, f"{type(error).__name__}: {error}")
            logger.exception("outrider: no live control in this engine; serving goes on")

    return init


def _with_step_hook(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def schedule(self: Any, *args: Any, **kwargs: Any) -> Any:
        control = getattr(self, _CONTROL, None)
        if control is not None:
            control.before_schedule()
        return original(self, *args, **kwargs)

    return schedule


def _why_no_control(engine_core: Any) -> str:
    failure = getattr(engine_core.scheduler, _FAILURE, None)
    return f"the plugin failed at the start: {failure}" if failure else "this scheduler carries no control"
