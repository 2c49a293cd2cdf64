"""What the launcher learns of adaptive verification on GPUs that are only pretended, by vLLM's own code.

Run by a Python that has vLLM, as ``pretended_attention.py GIVEN FOUND`` with files of JSON. Given is a list
of ``{"flags": […], "capability": [major, minor]}``; found, of each, the obstacle or null.

As `pretended_gpu`; besides, vLLM's layers are built here without storage. So the operators of the missing
kernels are mocks that do nothing and support nothing, and FlashAttention seems to be there.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import types
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import pretended_gpu  # type: ignore[import-not-found]

from outrider_engine.vllm_adapter.attention import obstacle

FLASH_ATTENTION = ("vllm.vllm_flash_attn._vllm_fa2_C", "vllm.vllm_flash_attn._vllm_fa3_C")

ANSWERS_OF_A_SERVER = "orjson"
"""A package that 0.33 imports for its answers, and that the installed release lacks."""


def pretend_kernels() -> None:
    """Let every operator that is not compiled here exist, after vLLM has seen which of them are."""
    import torch._ops
    import vllm._custom_ops  # noqa: F401

    known = torch._ops._OpNamespace.__getattr__

    def operator(namespace: Any, name: str) -> Any:
        try:
            return known(namespace, name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return MagicMock(return_value=False)

    torch._ops._OpNamespace.__getattr__ = operator


def answer(flags: list[str], capability: list[int]) -> str | None:
    """The obstacle of one launch on a GPU of this compute capability."""
    import vllm.platforms as platforms
    from vllm.platforms.interface import DeviceCapability

    platform = type(platforms.current_platform)
    with patch.object(
        platform, "get_device_capability", MagicMock(return_value=DeviceCapability(*capability))
    ):
        return obstacle(flags)


def answered_apart(launch: dict[str, Any], found: Path) -> Any:
    """`answer` of a forked process: vLLM's classes keep what they found of a GPU."""
    child = os.fork()
    if child == 0:
        found.write_text(json.dumps(answer(launch["flags"], launch["capability"])))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status != 0:
        sys.exit(f"no answer for {launch}")
    return json.loads(found.read_text())


def main(given: str, found: str) -> None:
    """See the head of this file."""
    for name in FLASH_ATTENTION:
        sys.modules.setdefault(name, types.ModuleType(name))
    if importlib.util.find_spec(ANSWERS_OF_A_SERVER) is None:
        sys.modules[ANSWERS_OF_A_SERVER] = types.ModuleType(ANSWERS_OF_A_SERVER)
    pretended_gpu.pretend()
    pretend_kernels()
    importlib.import_module("vllm.entrypoints.cli.serve")  # for all launches at once
    answers = Path(found)
    said = [answered_apart(launch, answers) for launch in json.loads(Path(given).read_text())]
    answers.write_text(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
