"""A plugin for vLLM, for tests: the processes of an engine are forked, as vLLM does it on a GPU.

vLLM's platform for CPUs has each of them spawned, so that it can pin threads, and each then imports vLLM
again: two thirds of a start. Engines of the tests have one thread each and pin none. Source: vLLM 0.32.0,
`vllm.platforms.cpu.CpuPlatform.check_and_update_config`. See `helper_plugins`.
"""

from __future__ import annotations

import os
from typing import Any

NAME = "quick_start"


def register() -> None:
    """Say it after the platform has."""
    from vllm.platforms.cpu import CpuPlatform

    decide = CpuPlatform.check_and_update_config.__func__

    def decided(cls: Any, vllm_config: Any) -> None:
        decide(cls, vllm_config)
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"

    CpuPlatform.check_and_update_config = classmethod(decided)
