"""The platform of a simulated engine: vLLM's CPU platform without its CPU-specific parts.

Source: vLLM 0.32.0, `vllm.platforms.cpu.CpuPlatform.check_and_update_config`: it disables asynchronous
scheduling, spawns processes, and preloads libraries for its kernels.
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
    """One per process."""

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Prepare the process before vLLM inspects a model."""
        super().pre_register_and_update(parser)
        # Nothing is computed, so any context length works.
        os.environ.setdefault("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1")
        _inspect_models_here()
        if os.environ.get("VLLM_USE_V2_MODEL_RUNNER") == "1":
            _schedule_for_v2()

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Set the executor. Raises ValueError for a launch that is not simulated."""
        settings = parse_settings(os.environ[VARIABLE])
        if vllm_config.model_config is None:
            super().check_and_update_config(vllm_config)
            return
        if obstacles := launch_obstacles(vllm_config):
            raise ValueError(f"Outrider's simulated engine: {'; '.join(obstacles)}")
        asynchronous = vllm_config.scheduler_config.async_scheduling
        preload = os.environ.get(PRELOAD)
        super().check_and_update_config(vllm_config)
        # The CPU's platform spawns, which costs 10 s per start, and preloads libraries for its kernels.
        os.environ[START_METHOD] = "fork"
        os.environ.pop(PRELOAD, None)
        if preload is not None:
            os.environ[PRELOAD] = preload
        vllm_config.scheduler_config.async_scheduling = asynchronous
        vllm_config.parallel_config.distributed_executor_backend = EXECUTOR
        vllm_config.additional_config = {**vllm_config.additional_config, TOLD: settings.description().title}

    @classmethod
    def validate_request(cls, processed_inputs: Any, params: Any) -> None:
        """Raise vLLM's own error for a request that is not simulated."""
        super().validate_request(processed_inputs, params)
        texts = parse_settings(os.environ[VARIABLE]).description().curves()
        if obstacles := request_obstacles(params, texts):
            raise VLLMValidationError(f"Outrider's simulated engine: {'; '.join(obstacles)}")


def _inspect_models_here() -> None:
    """Let vLLM inspect a model's class in this process, since there is no GPU to initialize."""
    from vllm.model_executor.models import registry

    registry._run_in_subprocess = lambda look: look()


def _schedule_for_v2() -> None:
    """Let vLLM accept its V2 runner without Triton, since only its scheduler runs here."""
    from vllm.config import vllm

    vllm.HAS_TRITON = True
