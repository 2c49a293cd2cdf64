"""What the control does around each round of one scheduler, on the rank that leads its group.

It runs inside the engine's round, so its time is counted. Nothing here raises: a failure disables for good
what failed, and the engine continues to serve.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from outrider_engine.control.core import EngineCoreControl
from outrider_engine.control.fast_loop_chooser import Choice
from outrider_sglang.sglang_adapter.scheduler import Reading, Round, Scheduler

K_OF_ROUND = "outrider_k"
"""Attribute of a result: the K of its round. Where rounds overlap, another K may be in force by then."""


class RoundHooks:
    """The hooks of one scheduler. Runs on the scheduler's thread."""

    def __init__(self, scheduler: Scheduler, control: EngineCoreControl) -> None:
        self.control = control
        self._scheduler = scheduler
        self._began = self._hooked = self._chosen = 0.0

    def launching(self, batch: Any) -> Round | None:
        """A batch is about to be launched; None where it is not counted."""
        self._began = perf_counter()
        self._chosen = self.control.fast_loop.hook_seconds
        found = None
        if self.control.meter is not None:
            try:
                found = Round.of(batch)
            except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
                self.control.measuring_failed(error)
        self._hooked = perf_counter() - self._began
        return found

    def launched(self, batch: Round | None, result: Any) -> None:
        """A batch was launched. result: the object that has its results later."""
        meter, control = self.control.meter, self.control
        if batch is None or meter is None:
            return
        returned = perf_counter()
        try:
            k = self._scheduler.num_speculative_tokens
            setattr(result, K_OF_ROUND, k)
            meter.scheduled(
                result,
                request_ids=batch.names,
                gone=(),
                num_speculative_tokens=k,
                prefill_tokens=batch.prefill_tokens,
                context_tokens=batch.context_tokens,
                began=self._began,
            )
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            control.measuring_failed(error)
            return
        chosen = control.fast_loop.hook_seconds - self._chosen
        self._fast_loop_launched(batch, result, k)
        meter.hook_seconds += self._hooked + chosen + perf_counter() - returned

    def reading(self, batch: Any) -> Reading | None:
        """SGLang is about to read the result of a batch."""
        if self.control.meter is None:
            return None
        try:
            return Reading.of(batch)
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self.control.measuring_failed(error)
            return None

    def finished(self, reading: Reading | None, result: object) -> None:
        """SGLang has read the result of a batch."""
        meter, control = self.control.meter, self.control
        k = getattr(result, K_OF_ROUND, None)
        if reading is None or meter is None or k is None:
            return
        ended = perf_counter()
        try:
            drafted, accepted = reading.accepted(result, k)
            choice = self._fast_loop_verified(result, drafted, accepted)
            step = meter.finished(
                result,
                emitted_tokens=reading.emitted_tokens(),
                drafted=drafted,
                accepted=accepted,
                work_left=self._scheduler.has_work,
                ended=ended,
            )
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            control.measuring_failed(error)
            return
        if step is not None:
            control.after_step(step, choice)
        meter.hook_seconds += perf_counter() - ended

    def _fast_loop_launched(self, batch: Round, result: object, k: int) -> None:
        fast_loop = self.control.fast_loop
        if not fast_loop.active:
            return
        try:
            decoding = len(batch.names) if batch.decoding else 0
            fast_loop.scheduled(result, k=k, decoding=decoding, new_requests=batch.new_requests)
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self.control.fast_loop_failed(error)

    def _fast_loop_verified(self, result: object, drafted: Any, accepted: Any) -> Choice | None:
        if not self.control.fast_loop.active:
            return None
        try:
            return self.control.fast_loop.verified(result, drafted=drafted, accepted=accepted)
        except Exception as error:  # noqa: BLE001  a fault of the plugin must not end the engine
            self.control.fast_loop_failed(error)
            return None
