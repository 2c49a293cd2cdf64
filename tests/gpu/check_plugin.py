"""A plugin for vLLM, for the engines of the check. It runs in the engine's Python.

It writes the class of vLLM's scheduler to the log, because no line of vLLM says whether a launch schedules
asynchronously. With acceptance by chance it lets the self-test accept answers that differ between K: there
they differ by design, and the engine would refuse every K. See `tests.contract.helper_plugins`.
"""

from __future__ import annotations

import logging
import os
from typing import Any

NAME = "gpu_check"
CHANCE_VARIABLE = "OUTRIDER_GPU_CHECK_CHANCE"
"""Set where vLLM accepts drafts by chance."""

logger = logging.getLogger("vllm.outrider")


def register() -> None:
    """Attach to the scheduler and to the self-test. A core that is a process of its own loads plugins while
    it is being made, so it is too late to attach to the core."""
    from vllm.v1.core.sched.scheduler import Scheduler

    original = Scheduler.__init__

    def initialised(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        logger.info("gpu-check: scheduler %s", type(self).__name__)

    Scheduler.__init__ = initialised
    if os.environ.get(CHANCE_VARIABLE):
        from outrider_engine.startup import readiness

        readiness.part_at_a_tie = _answers_differ_by_design  # type: ignore[assignment]


async def _answers_differ_by_design(*_: object) -> bool:
    return True
