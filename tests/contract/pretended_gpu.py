"""What vLLM's own configuration makes of launches, on a GPU that is only pretended.

Run by a Python that has vLLM, without anything of this project, with files of JSON:

- ``pretended_gpu.py look CLASSES``: a list of model classes, which vLLM then knows in later runs
  (`look_at`).
- ``pretended_gpu.py resolve GIVEN FOUND``: ``launches`` of ``{"flags": […], "variables": {…}}`` and ``gpus``
  of ``{"name": …, "memory": bytes, "capability": [major, minor]}``. Found of each launch is its ``runner``
  (V1, V2), ``mode`` (of the CUDA graphs), ``asynchronous``, and ``decodeLengths``: tokens per request of the
  decode steps that get a full graph of their own; of each GPU the largest batch of an API server
  (``batches``).

Compiled kernels are replaced by empty modules and nothing is computed: what is asked for is the
configuration, and which graphs vLLM would capture by it.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import sys
import types
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

GIB = 2**30

KERNELS = ("vllm._C", "vllm._C_stable_libtorch", "vllm._moe_C", "vllm._moe_C_stable_libtorch")
"""Compiled for a GPU, and imported by its platform."""


MOCKED = (
    "vllm.compilation",
    "vllm.distributed",
    "vllm.forward_context",
    "vllm.model_executor",
    "vllm.v1.attention",
    "vllm.v1.hisparse",
    "vllm.v1.worker",
)
"""What the manager of V2's graphs imports, and needs for capturing only."""


def look_at(architectures: list[str]) -> None:
    """Let vLLM keep in its cache, for later runs, what it has to know of model classes. As on a CPU: on a
    GPU they import kernels."""
    import vllm.platforms as platforms
    from vllm.platforms.cpu import CpuPlatform

    platforms._current_platform = CpuPlatform()
    import vllm.model_executor.models.registry as registry

    registry._run_in_subprocess = lambda inspect: inspect()
    for architecture in architectures:
        registry.ModelRegistry.models[architecture].inspect_model_cls()


def pretend() -> None:
    """Make vLLM believe that it runs on one H100 with Triton. Before anything else of vLLM is imported."""
    for name in KERNELS:
        sys.modules.setdefault(name, types.ModuleType(name))
    import vllm.platforms as platforms
    from vllm.platforms import cuda
    from vllm.platforms.interface import DeviceCapability

    class PretendedH100(cuda.NonNvmlCudaPlatform):  # type: ignore[misc]
        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:  # noqa: ARG003
            return DeviceCapability(9, 0)

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:  # noqa: ARG003
            return "NVIDIA H100 80GB HBM3"

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:  # noqa: ARG003
            return 80 * GIB

        @classmethod
        def is_fully_connected(cls, physical_device_ids: list[int]) -> bool:  # noqa: ARG003
            return True

        @classmethod
        def device_count(cls) -> int:
            return 1

        @classmethod
        def log_warnings(cls) -> None:
            pass

    platforms._current_platform = PretendedH100()
    importlib.import_module("vllm.config.vllm")
    for module in [module for name, module in sys.modules.items() if name.startswith("vllm.")]:
        if hasattr(module, "HAS_TRITON"):
            module.HAS_TRITON = True  # type: ignore[attr-defined]


def resolved(flags: list[str]) -> Any:
    """vLLM's configuration of an API server with these flags; those of its HTTP server change nothing."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parsed, _ = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser()).parse_known_args(flags)
    return AsyncEngineArgs.from_cli_args(parsed).create_engine_config(UsageContext.OPENAI_API_SERVER)


def decode_lengths(config: Any) -> list[int]:
    """Tokens per request of every decode step with a full graph of its own, rising."""
    mode = config.compilation_config.cudagraph_mode
    longest = 1 + config.num_speculative_tokens
    if config.use_v2_model_runner:
        return _of_v2(config, mode, longest)
    return [longest] if mode.has_full_cudagraphs() else []


def _of_v2(config: Any, mode: Any, longest: int) -> list[int]:
    """By the manager of V2's graphs, which is asked before it captures any."""
    import torch

    manager = _alone("vllm.v1.worker.gpu.cudagraph_utils").CudaGraphManager(
        config, torch.device("cpu"), mode, longest
    )
    described = (desc for descs in manager._capture_descs.values() for desc in descs)
    return sorted({desc.uniform_token_count for desc in described} - {None})


@cache
def _alone(name: str) -> types.ModuleType:
    """A module of vLLM, with mocks for what it imports of workers, layers and attention."""
    file = importlib.util.find_spec("vllm").submodule_search_locations[0]  # type: ignore[union-attr,index]
    path = Path(file).parent / f"{name.replace('.', '/')}.py"
    imported = {
        n.module or "" for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)
    }
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    mocks = {part: MagicMock() for part in imported if part.startswith(MOCKED)}
    with patch.dict(sys.modules, {**mocks, name: module}):
        spec.loader.exec_module(module)
    return module


def described(flags: list[str], variables: dict[str, str]) -> dict[str, object]:
    """What becomes of one launch. What vLLM leaves in the environment does not reach the next one."""
    with patch.dict(os.environ, variables):
        config = resolved(flags)
        return {
            "runner": "V2" if config.use_v2_model_runner else "V1",
            "mode": config.compilation_config.cudagraph_mode.name,
            "asynchronous": bool(config.scheduler_config.async_scheduling),
            "decodeLengths": decode_lengths(config),
        }


def default_batch(gpu: dict[str, Any]) -> int:
    """vLLM's ``max-num-seqs`` for an API server on one GPU, where no flag says it."""
    import vllm.platforms as platforms
    from vllm.engine.arg_utils import EngineArgs
    from vllm.platforms.interface import DeviceCapability
    from vllm.usage.usage_lib import UsageContext

    told = {
        "get_device_name": gpu["name"],
        "get_device_total_memory": int(gpu["memory"]),
        "get_device_capability": DeviceCapability(*gpu["capability"]),
    }
    with patch.multiple(
        type(platforms._current_platform), **{name: MagicMock(return_value=told[name]) for name in told}
    ):
        _, batches = EngineArgs.get_batch_defaults(1)
    return int(batches[UsageContext.OPENAI_API_SERVER])


def main(task: str, file: str, answer: str = "") -> None:
    """See the head of this file."""
    given = json.loads(Path(file).read_text())
    if task == "look":
        look_at(given)
        return
    pretend()
    found = {
        "launches": [described(launch["flags"], launch["variables"]) for launch in given["launches"]],
        "batches": [default_batch(gpu) for gpu in given["gpus"]],
    }
    Path(answer).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
