"""A plugin for vLLM, for tests: asynchronous scheduling on a CPU, as vLLM chooses it on a GPU.

vLLM's platform for CPUs switches it off, whatever vLLM's configuration has chosen before. The executors for a
CPU can do it. Source: vLLM 0.32.0, `vllm.platforms.cpu.CpuPlatform.check_and_update_config`. See
`helper_plugins`.
"""

from __future__ import annotations

import logging
from typing import Any

NAME = "asynchronous"
QUEUED = "AsyncScheduler with a queue of 2 batches"
"""In the log of an engine that schedules a step while the one before is computed."""

logger = logging.getLogger("vllm.asynchronous")


def register() -> None:
    """Keep vLLM's own choice, and write into the log what the first step makes of it."""
    from vllm.platforms.cpu import CpuPlatform
    from vllm.v1.engine.core import EngineCore

    decide = CpuPlatform.check_and_update_config.__func__

    def decided(cls: Any, vllm_config: Any) -> None:
        chosen = vllm_config.scheduler_config.async_scheduling
        decide(cls, vllm_config)
        vllm_config.scheduler_config.async_scheduling = chosen

    CpuPlatform.check_and_update_config = classmethod(decided)

    step = EngineCore.step_with_batch_queue

    def queued(self: Any) -> Any:
        logger.info("%s with a queue of %d batches", type(self.scheduler).__name__, self.batch_queue_size)
        self.step_fn = self.step_with_batch_queue = step.__get__(self)
        return self.step_fn()

    EngineCore.step_with_batch_queue = queued
