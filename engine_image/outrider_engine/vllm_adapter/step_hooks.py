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
from outrider_engine.vllm_adapter.scheduler import (
    ScheduledStep,
    Scheduler,
    StepResult,
    adapter_of,
    arrival_of,
    trimmed_in,
)


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

    def write_down_drafts(self) -> None:
        """Count the drafts of each request, for adaptive verification, K limits and LoRA adapters."""
        self._scheduler.write_down_drafts(self._draft_counted, self.control.measuring_failed)

    def _draft_counted(self, request_id: str, drafts: int, accepted: int) -> None:
        trimmed = self.control.trimmed_drafts
        if self.control.counts_for_clients:
            self.control.adapter_drafts.counted(request_id, drafts, accepted)
        if not self.control.request_limits.counted(request_id, drafts, accepted) and trimmed.adaptive:
            trimmed.counted(request_id, drafts)

    def request_added(self, request: Any) -> None:
        """A request arrived, which has sampling parameters."""
        try:
            self.control.request_limits.admit(arrival_of(request))
            if self.control.request_limits.active:
                self.write_down_drafts()
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self.control.request_limits_failed(error)

    def adapter_requested(self, request: Any) -> None:
        """A request arrived, of the base model or of a LoRA adapter."""
        if not self.control.adapter_drafts.active:
            return
        try:
            self.control.adapter_drafts.admit(request.request_id, adapter_of(request))
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self.control.adapter_drafts_failed(error)

    def before_schedule(self) -> None:
        """A step is about to be scheduled."""
        self._began = perf_counter()
        self.control.before_schedule()
        if (limits := self.control.request_limits).active:
            try:
                limits.withheld_tokens += self._scheduler.withhold_drafts(limits.of)
                limits.end_early(self._scheduler.output_tokens)
            except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
                self.control.request_limits_failed(error)
        self._hooked = perf_counter() - self._began
        self._chosen = self.control.fast_loop.hook_seconds

    def scheduled(self, step: ScheduledStep) -> None:
        """A step was scheduled."""
        returned, control = perf_counter(), self.control
        hooked = self._hooked + control.fast_loop.hook_seconds - self._chosen
        apart = self._limits_scheduled(step)
        self._fast_loop_scheduled(step, apart)
        self._adapters_scheduled(step)
        control.idle_drafter.scheduled(step)
        if (meter := control.meter) is not None:
            control.backlog.put(self._count_scheduled, meter, step, self._began)
            meter.hook_seconds += hooked + perf_counter() - returned

    def reading(self, key: object) -> None:
        """vLLM is about to read the result of a step. key: as in `finished`."""
        self.control.request_limits.reading(key)

    def finished(self, key: object, output: Any, result: Any) -> None:
        """A step has its result.

        key: that of the scheduled step.
        output: of the model runner.
        result: as ``update_from_output`` gave it.
        """
        control = self.control
        if (fault := getattr(output, FAULT, None)) is not None:
            control.idle_drafter.failed_in_worker(fault)
        limited = control.request_limits.end_step()
        if (meter := control.meter) is None:
            control.trimmed_drafts.forget()
            return
        ended = perf_counter()
        try:
            trimmed = self._trimmed(output)
            found, work_left = StepResult.of(result, trimmed, limited), self._scheduler.has_work
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

    def _limits_scheduled(self, step: ScheduledStep) -> frozenset[str]:
        """Let the step draft no more than its requests may verify; those that may verify less than others."""
        limits = self.control.request_limits
        if not limits.active:
            return frozenset()
        try:
            limits.forget(step.gone)
            drafted = step.num_speculative_tokens
            if (k := limits.k_of(step.request_ids, drafted)) < drafted:
                step.draft_at_most(k)
            return limits.scheduled(step.key, step.request_ids, k)
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self.control.request_limits_failed(error)
            return frozenset()

    def _adapters_scheduled(self, step: ScheduledStep) -> None:
        if not self.control.adapter_drafts.active:
            return
        try:
            self.control.adapter_drafts.forget(step.gone)
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self.control.adapter_drafts_failed(error)

    def _fast_loop_scheduled(self, step: ScheduledStep, apart: frozenset[str]) -> None:
        fast_loop = self.control.fast_loop
        if not fast_loop.active:
            return
        began = perf_counter()
        try:
            if step.request_ids:
                fast_loop.limited = self.control.request_limits.latest
                fast_loop.scheduled(
                    step.key,
                    k=step.num_speculative_tokens,
                    decoding=step.decoding_requests - (step.decoding_among(apart) if apart else 0),
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
            if found.limited is not None:
                meter.count_limited(step, found.limited)
            self.control.after_step(step, choice)
