"""The fault that ended the skip of a drafter in a worker, sent along with a step's result.

Runs in vLLM's workers. Source: vLLM 0.32.0. `GPUModelRunner.sample_tokens` of both runners calls the drafter.
It returns the output of the step, or an object whose ``get_output`` gives that output later. vLLM sends the
output of one rank to the engine core, so a fault of another rank is in the log only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("vllm.outrider")

FAULT = "outrider_drafter_fault"
"""Attribute of a model runner's output, absent as long as the drafter obeys its orders."""


def fault_of(error: Exception) -> str:
    """Log the error that the worker handles now. Returns the words that `FAULT` carries."""
    logger.exception("outrider: the drafter cannot be skipped or catch up; it runs in every step now")
    return f"{type(error).__name__}: {error}"


def reporting(fault_in: Callable[[Any], str | None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A wrapper of ``sample_tokens`` that adds the fault to the output. fault_in: takes the runner."""

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def sample_tokens(self: Any, *args: Any, **kwargs: Any) -> Any:
            output = original(self, *args, **kwargs)
            fault = fault_in(self)
            return output if fault is None or output is None else _marked(output, fault)

        return sample_tokens

    return wrapped


def _marked(output: Any, fault: str) -> Any:
    get_output = getattr(output, "get_output", None)
    if get_output is None:
        setattr(output, FAULT, fault)
    else:
        output.get_output = lambda: _marked(get_output(), fault)
    return output
