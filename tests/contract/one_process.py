"""A plugin for vLLM, for tests: the engine's core computes by itself, as vLLM has it on one GPU.

vLLM's platform for CPUs gives even one rank a process of its own, so that it can pin threads. Core and worker
then look for each other's messages without a rest for a second after each one, which is two fifths of the
processor time of such an engine. Engines of the tests have one thread and pin none. Source: vLLM 0.32.0,
`vllm.platforms.cpu.CpuPlatform.check_and_update_config`,
`vllm.distributed.device_communicators.shm_broadcast.SpinCondition`. See `helper_plugins`.
"""

from __future__ import annotations

from typing import Any

NAME = "one_process"


def register() -> None:
    """Say it after the platform has."""
    from vllm.platforms.cpu import CpuPlatform

    decide = CpuPlatform.check_and_update_config.__func__

    def decided(cls: Any, vllm_config: Any) -> None:
        decide(cls, vllm_config)
        vllm_config.parallel_config.distributed_executor_backend = "uni"

    CpuPlatform.check_and_update_config = classmethod(decided)
