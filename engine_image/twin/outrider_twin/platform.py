"""The platform of a stand-in: that of vLLM for CPUs, without what a GPU does not have.

Source: vLLM 0.32.0, `vllm.platforms.cpu.CpuPlatform.check_and_update_config`: it switches asynchronous
scheduling off, has processes spawned, and preloads libraries for its kernels.
"""

from __future__ import annotations

import os
from typing import Any

from vllm.exceptions import VLLMValidationError
from vllm.platforms.cpu import CpuPlatform

from outrider_twin.refusal import launch_obstacles, request_obstacles
from outrider_twin.settings import VARIABLE, parse_settings

EXECUTOR = "outrider_twin.executor.TwinExecutor"
TOLD = "simulated"
"""In vLLM's ``additional_config``, where the control plugin reads it."""

START_METHOD = "VLLM_WORKER_MULTIPROC_METHOD"
PRELOAD = "LD_PRELOAD"


class TwinPlatform(CpuPlatform):  # type: ignore[misc]
    """Made once per process."""

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Called before vLLM looks at a model."""
        super().pre_register_and_update(parser)
        # Nothing is computed, so a model is as long as it is asked to be.
        os.environ.setdefault("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1")
        _inspect_models_here()
        if os.environ.get("VLLM_USE_V2_MODEL_RUNNER") == "1":
            _schedule_for_v2()

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Raises ValueError where something is asked for that is not simulated."""
        settings = parse_settings(os.environ[VARIABLE])
        if vllm_config.model_config is None:
            super().check_and_update_config(vllm_config)
            return
        if obstacles := launch_obstacles(vllm_config):
            raise ValueError(f"Outrider's stand-in for a GPU: {'; '.join(obstacles)}")
        asynchronous = vllm_config.scheduler_config.async_scheduling
        preload = os.environ.get(PRELOAD)
        super().check_and_update_config(vllm_config)
        # The CPU's platform spawns, which costs 10 s per start, and preloads what its kernels are fast with.
        os.environ[START_METHOD] = "fork"
        os.environ.pop(PRELOAD, None)
        if preload is not None:
            os.environ[PRELOAD] = preload
        vllm_config.scheduler_config.async_scheduling = asynchronous
        vllm_config.parallel_config.distributed_executor_backend = EXECUTOR
        vllm_config.additional_config = {**vllm_config.additional_config, TOLD: settings.description().title}

    @classmethod
    def validate_request(cls, processed_inputs: Any, params: Any) -> None:
        """Raises what vLLM tells the client, for what is not simulated."""
        super().validate_request(processed_inputs, params)
        texts = parse_settings(os.environ[VARIABLE]).description().curves()
        if obstacles := request_obstacles(params, texts):
            raise VLLMValidationError(f"Outrider's stand-in for a GPU: {'; '.join(obstacles)}")


def _inspect_models_here() -> None:
    """vLLM looks at a model's class in a process of its own, lest a GPU be initialized; here is none."""
    from vllm.model_executor.models import registry

    registry._run_in_subprocess = lambda look: look()


def _schedule_for_v2() -> None:
    """vLLM's V2 runner needs Triton, so its configuration asks for it; here only the scheduler takes part."""
    from vllm.config import vllm

    vllm.HAS_TRITON = True
