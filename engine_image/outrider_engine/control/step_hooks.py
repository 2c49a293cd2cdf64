"""What the meter counts of a step, read from what vLLM's scheduler gave and took.

Source: vLLM 0.32.0, `vllm.v1.core.sched.scheduler.Scheduler`. Its output of a step does not change once the
step was scheduled, so it may be read later.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, NamedTuple

from outrider_engine.control.core import EngineCoreControl
from outrider_engine.control.fast_loop_chooser import Choice
from outrider_engine.counting.measure import Meter
from outrider_engine.vllm_adapter.scheduler_step import SchedulerStep


def choice_scheduled(control: EngineCoreControl, output: Any) -> None:
    """A step was scheduled. See `Choosing.scheduled`. Never raises."""
    choosing = control.choosing
    if not choosing.active:
        return
    began = perf_counter()
    try:
        if output.num_scheduled_tokens:
            # A request without output is in its prompt, and has no drafts to verify.
            outputs: list[int] = output.scheduled_cached_reqs.num_output_tokens
            choosing.scheduled(
                output,
                k=output.num_spec_tokens_to_schedule,
                decoding=len(outputs) - outputs.count(0),
                new_requests=len(output.scheduled_new_reqs),
            )
    except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
        control.choosing_failed(error)
    choosing.hook_seconds += perf_counter() - began


def choice_verified(control: EngineCoreControl, output: Any, drafts: Any) -> Choice | None:
    """A step has its result. See `Choosing.verified`. Never raises."""
    choosing = control.choosing
    if not choosing.active:
        return None
    began, choice = perf_counter(), None
    try:
        choice = choosing.verified(
            output,
            drafted=drafts.num_draft_tokens_per_pos if drafts else (),
            accepted=drafts.num_accepted_tokens_per_pos if drafts else (),
        )
    except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
        control.choosing_failed(error)
    choosing.hook_seconds += perf_counter() - began
    return choice


class Given(NamedTuple):
    """What a step gave. drafts: vLLM's own sums over those that it verified; None without any."""

    emitted_tokens: int
    drafts: Any
    work_left: bool
    ended: float


def count_schedule(meter: Meter, step: SchedulerStep, output: Any, began: float) -> None:
    """A step was scheduled. See `Meter.scheduled`."""
    tokens, new, cached = output.num_scheduled_tokens, output.scheduled_new_reqs, output.scheduled_cached_reqs
    meter.scheduled(
        output,
        request_ids=tokens,
        gone=output.finished_req_ids,
        num_speculative_tokens=output.num_spec_tokens_to_schedule,
        prefill_tokens=step.prefill_tokens,
        context_tokens=sum(cached.num_computed_tokens) + sum(request.num_computed_tokens for request in new),
        began=began,
    )


def given_by(result: Any, *, work_left: bool, ended: float) -> Given:
    """Read what ``update_from_output`` gave, of which logprobs need not be held for long."""
    emitted, drafts = 0, None
    for outputs in result.values():
        emitted += sum([len(output.new_token_ids) for output in outputs.outputs])
        if outputs.scheduler_stats is not None:
            drafts = outputs.scheduler_stats.spec_decoding_stats or drafts
    return Given(emitted, drafts, work_left, ended)


def count_update(
    control: EngineCoreControl, meter: Meter, output: Any, given: Given, choice: Choice | None
) -> None:
    """A step has its result. See `Meter.finished` and `EngineCoreControl.after_step`."""
    drafts: Any = given.drafts
    step = meter.finished(
        output,
        emitted_tokens=given.emitted_tokens,
        drafted=drafts.num_draft_tokens_per_pos if drafts else (),
        accepted=drafts.num_accepted_tokens_per_pos if drafts else (),
        work_left=given.work_left,
        ended=given.ended,
    )
    if step is not None:
        control.after_step(step, choice)
