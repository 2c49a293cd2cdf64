"""A plugin for vLLM, for this bench: times the parts of every step of an engine's core.

It runs in the engine's Python, as a module of its own. What Outrider's plugin wraps is timed within and
around it, so what the plugin adds is a part, too. An engine without that plugin has the same timers there;
only those around a drafter are more. The sums are written as the core comes to rest, so no step waits for it.

Source: vLLM 0.32.0. `vllm.v1.engine.core.EngineCoreProc` steps on one thread, and a worker in the core is on
it, too. `vllm.v1.worker.gpu_model_runner.GPUModelRunner` prepares the inputs, runs the model and computes
logits in ``execute_model``; in ``sample_tokens`` it samples, has the drafter propose, and keeps its books.
"""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from time import perf_counter_ns
from typing import Any

FILE_VARIABLE = "K0_TIMERS_FILE"
"""Where an engine's sums go."""


class Part(StrEnum):
    """What the core's time goes to while it has work, in the order of a step."""

    SCHEDULE = "scheduler, before the step"
    INPUTS = "inputs of the model"
    FORWARD = "forward pass"
    LOGITS = "logits"
    SAMPLER = "sampler"
    DRAFTER_INPUTS = "inputs of the drafter"
    DRAFTER = "passes of the drafter"
    DRAFTER_HOOKS = "plugin, at the drafter"
    HIDDEN_STATES = "plugin, keeping hidden states"
    DRAFTS = "drafts handed over"
    BOOKS = "books of the worker"
    UPDATE = "scheduler, after the step"
    SCHEDULER_HOOKS = "plugin, at the scheduler"
    REST = "rest of the step"
    BETWEEN = "between two steps"
    OTHER_STEPS = "steps with prompts"
    """As a whole, and those that found nothing to do: the other parts are of steps that only decode."""


class Stopwatch:
    """Charges every moment to the innermost part that runs. Of one thread. clock: gives nanoseconds.

    The sums are those of finished laps.
    """

    def __init__(self, clock: Callable[[], int] = perf_counter_ns) -> None:
        self.nanoseconds: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._lap_nanoseconds: dict[str, int] = {}
        self._lap_calls: dict[str, int] = {}
        self._clock = clock
        self._part: str | None = None
        self._since = 0

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, charged to a part."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            caller = self.switch(part)
            self._lap_calls[part] = self._lap_calls.get(part, 0) + 1
            try:
                return function(*args, **kwargs)
            finally:
                self.switch(caller)

        return call

    def switch(self, part: str | None) -> str | None:
        """From here on another part runs, or none. The part that ran."""
        now, ran = self._clock(), self._part
        if ran is not None:
            self._lap_nanoseconds[ran] = self._lap_nanoseconds.get(ran, 0) + now - self._since
        self._part, self._since = part, now
        return ran

    def end_lap(self, *, whole: str | None = None) -> None:
        """Add a lap to the sums. whole: charge all of it to this part, and count no calls."""
        if whole is None:
            self.nanoseconds.update(self._lap_nanoseconds)
            self.calls.update(self._lap_calls)
        else:
            self.nanoseconds[whole] += sum(self._lap_nanoseconds.values())
        self._lap_nanoseconds.clear()
        self._lap_calls.clear()


def nanoseconds_per_call(*, laps: int = 200, rounds: int = 5) -> float:
    """What it takes to time a call, with its share of a lap. The least of some rounds."""

    def nothing() -> None:
        pass

    def elapsed(functions: Sequence[Callable[[], None]], end_lap: Callable[[], None]) -> int:
        began = perf_counter_ns()
        for _ in range(laps):
            for function in functions:
                function()
            end_lap()
        return perf_counter_ns() - began

    stopwatch = Stopwatch()
    timed = [stopwatch.timed(part, nothing) for part in Part]
    clocked = min(elapsed(timed, stopwatch.end_lap) for _ in range(rounds))
    bare = min(elapsed([nothing] * len(Part), nothing) for _ in range(rounds))
    return (clocked - bare) / (laps * len(Part))


_ONLY_DECODES = "_k0_only_decodes"
"""Attribute of the scheduler: whether its latest step computes one token of each request."""

_stopwatch = Stopwatch()


def register() -> None:
    """Time an engine without Outrider's plugin."""
    _time_core(attach=_nothing)
    _before_workers(lambda _: _time_worker(attach=_nothing))


def register_with_outrider() -> None:
    """Time an engine with Outrider's plugin, which is attached between the timers."""
    from outrider_engine.idle_drafter.hidden_state_cache import HiddenStateCache
    from outrider_engine.plugin import register as attach_outrider

    _time_core(attach=attach_outrider)
    _before_workers(lambda config: _time_worker(attach=lambda: _outriders_parts(config)))
    _time(HiddenStateCache, keep=Part.HIDDEN_STATES)


def _outriders_parts(config: Any) -> None:
    from outrider_engine.vllm_adapter.worker import parts

    for part in parts(config):
        part()


def _time_core(*, attach: Callable[[], None]) -> None:
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine.core import EngineCoreProc

    _time(Scheduler, schedule=Part.SCHEDULE, update_from_output=Part.UPDATE)
    attach()
    _time(Scheduler, schedule=Part.SCHEDULER_HOOKS, update_from_output=Part.SCHEDULER_HOOKS)
    _time(EngineCoreProc, post_step=Part.DRAFTS)
    Scheduler.schedule = _telling_kinds(Scheduler.schedule)
    EngineCoreProc._process_engine_step = _in_laps(EngineCoreProc._process_engine_step)


def _time_worker(*, attach: Callable[[], None]) -> None:
    from vllm.v1.spec_decode.llm_base_proposer import SpecDecodeBaseProposer
    from vllm.v1.worker.cpu_model_runner import CPUModelRunner
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    _time(SpecDecodeBaseProposer, propose=Part.DRAFTER)
    _time(GPUModelRunner, propose_draft_token_ids=Part.DRAFTER_INPUTS)
    attach()
    _time(SpecDecodeBaseProposer, propose=Part.DRAFTER_HOOKS)
    _time(
        GPUModelRunner,
        execute_model=Part.INPUTS,
        _model_forward=Part.FORWARD,
        sample_tokens=Part.BOOKS,
        _sample=Part.SAMPLER,
        propose_draft_token_ids=Part.DRAFTER_HOOKS,
        _copy_draft_token_ids_to_cpu=Part.DRAFTS,
    )
    CPUModelRunner.load_model = _timing_logits(CPUModelRunner.load_model)


def _time(owner: Any, **parts: Part) -> None:
    for name, part in parts.items():
        setattr(owner, name, _stopwatch.timed(part, getattr(owner, name)))


def _before_workers(prepare: Callable[[Any], None]) -> None:
    """Prepare for vLLM's configuration as a worker is made: its modules are not for every process."""
    from vllm.v1.worker.worker_base import WorkerBase

    original, waiting = WorkerBase.__init__, [prepare]

    @functools.wraps(original)
    def init(self: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        while waiting:
            waiting.pop()(vllm_config)
        original(self, vllm_config, *args, **kwargs)

    WorkerBase.__init__ = init


def _timing_logits(load: Callable[..., None]) -> Callable[..., None]:
    """Of the target alone: a drafter may be of the same class."""

    @functools.wraps(load)
    def load_model(self: Any, *args: Any, **kwargs: Any) -> None:
        load(self, *args, **kwargs)
        _time(self.model, compute_logits=Part.LOGITS)

    return load_model


def _telling_kinds(schedule: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(schedule)
    def told(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = schedule(self, *args, **kwargs)
        requests = len(output.num_scheduled_tokens)
        setattr(self, _ONLY_DECODES, 0 < output.total_num_scheduled_tokens == requests)
        return output

    return told


def _in_laps(step: Callable[[Any], bool]) -> Callable[[Any], bool]:
    file, cost = Path(os.environ[FILE_VARIABLE]), nanoseconds_per_call()
    file.unlink(missing_ok=True)  # the sums of an engine before this one

    @functools.wraps(step)
    def process_engine_step(self: Any) -> bool:
        _stopwatch.switch(Part.REST)
        executed = step(self)
        at_rest = not self.has_work()
        _stopwatch.switch(None if at_rest else Part.BETWEEN)
        only_decodes = getattr(self.scheduler, _ONLY_DECODES, False)
        _stopwatch.end_lap(whole=None if only_decodes else Part.OTHER_STEPS)
        if at_rest:
            sums = {"nanoseconds": _stopwatch.nanoseconds, "calls": _stopwatch.calls}
            partial = file.with_suffix(".partial")
            partial.write_text(json.dumps({**sums, "nanoseconds_per_call": cost}))
            partial.replace(file)
        return executed

    return process_engine_step


def _nothing() -> None:
    pass
