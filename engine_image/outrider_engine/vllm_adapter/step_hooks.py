"""What the control does around each step of one scheduler.

It runs inside the engine's step, so what can wait goes into the backlog, and its time is counted. Nothing
here raises: a failure disables for good what failed, and the engine continues to serve.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from outrider_engine.control.core import EngineCoreControl
from outrider_engine.control.fast_loop_chooser import Choice
from outrider_engine.counting.measure import Meter
from outrider_engine.vllm_adapter.drafter_fault import FAULT
from outrider_engine.vllm_adapter.scheduler import ScheduledStep, Scheduler, StepResult, trimmed_in


class StepHooks:
    """The hooks of one scheduler. Runs on the engine core's thread."""

    def __init__(self, scheduler: Scheduler, control: EngineCoreControl) -> None:
        self.control = control
        self._scheduler = scheduler
        self._began = self._hooked = self._chosen = 0.0

    @property
    def drafter_left_out(self) -> bool:
        """Whether the latest step skips the drafter, and so has no drafts."""
        return self.control.idle_drafter.left_out

    def before_schedule(self) -> None:
        """A step is about to be scheduled."""
        self._began = perf_counter()
        self.control.before_schedule()
        self._hooked = perf_counter() - self._began
        self._chosen = self.control.fast_loop.hook_seconds

    def scheduled(self, step: ScheduledStep) -> None:
        """A step was scheduled."""
        returned, control = perf_counter(), self.control
        hooked = self._hooked + control.fast_loop.hook_seconds - self._chosen
        self._fast_loop_scheduled(step)
        control.idle_drafter.scheduled(step)
        if (meter := control.meter) is not None:
            control.backlog.put(self._count_scheduled, meter, step, self._began)
            meter.hook_seconds += hooked + perf_counter() - returned

    def finished(self, key: object, output: Any, result: Any) -> None:
        """A step has its result.

        key: that of the scheduled step.
        output: of the model runner.
        result: as ``update_from_output`` gave it.
        """
        control = self.control
        if (fault := getattr(output, FAULT, None)) is not None:
            control.idle_drafter.failed_in_worker(fault)
        if (meter := control.meter) is None:
            control.trimmed_drafts.forget()
            return
        ended = perf_counter()
        try:
            trimmed = self._trimmed(output)
            found, work_left = StepResult.of(result, trimmed), self._scheduler.has_work
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            control.measuring_failed(error)
        else:
            choice = self._fast_loop_verified(key, found)
            control.backlog.put(self._count_finished, meter, key, found, work_left, ended, choice)
            if control.backlog.is_full or not control.at_rest:
                control.backlog.work_off()
        meter.hook_seconds += perf_counter() - ended

    def _trimmed(self, output: Any) -> Sequence[int]:
        drafts = self.control.trimmed_drafts
        if not drafts.adaptive or drafts.missing:
            return ()
        trimmed = trimmed_in(output, drafts)
        if trimmed is None:
            self.control.trimmed_drafts_unknown()
            return ()
        return trimmed

    def _fast_loop_scheduled(self, step: ScheduledStep) -> None:
        fast_loop = self.control.fast_loop
        if not fast_loop.active:
            return
        began = perf_counter()
        try:
            if step.request_ids:
                fast_loop.scheduled(
                    step.key,
                    k=step.num_speculative_tokens,
                    decoding=step.decoding_requests,
                    new_requests=step.new_requests,
                )
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self.control.fast_loop_failed(error)
        fast_loop.hook_seconds += perf_counter() - began

    def _fast_loop_verified(self, key: object, found: StepResult) -> Choice | None:
        fast_loop = self.control.fast_loop
        if not fast_loop.active:
            return None
        began, choice = perf_counter(), None
        try:
            choice = fast_loop.verified(key, drafted=found.drafted, accepted=found.accepted)
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self.control.fast_loop_failed(error)
        fast_loop.hook_seconds += perf_counter() - began
        return choice

    # Work of the backlog, some steps later.

    def _count_scheduled(self, meter: Meter, step: ScheduledStep, began: float) -> None:
        meter.scheduled(
            step.key,
            request_ids=step.request_ids,
            gone=step.gone,
            num_speculative_tokens=step.num_speculative_tokens,
            prefill_tokens=step.prefill_tokens,
            context_tokens=step.context_tokens,
            began=began,
        )

    def _count_finished(
        self,
        meter: Meter,
        key: object,
        found: StepResult,
        work_left: bool,
        ended: float,
        choice: Choice | None,
    ) -> None:
        step = meter.finished(
            key,
            emitted_tokens=found.emitted_tokens,
            drafted=found.drafted,
            accepted=found.accepted,
            work_left=work_left,
            ended=ended,
            trimmed=found.trimmed,
        )
        if step is not None:
            self.control.after_step(step, choice)
