"""Whether there is anything to check on."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gpu import __main__ as command
from tests.gpu.device import ASK_GPU, Ask, NoDevice, find_device

PYTHON = Path("/engine/bin/python")


def answers(*, gpus: str | None, vllm: str | None) -> Ask:
    """A machine; None: the command fails."""

    def ask(asked: Sequence[str]) -> str:
        answer = gpus if tuple(asked) == ASK_GPU else vllm
        if answer is None:
            raise subprocess.CalledProcessError(1, list(asked))
        return answer

    return ask


def test_a_vllm_for_the_cpu_is_no_vllm_for_a_gpu() -> None:
    with pytest.raises(NoDevice, match="OUTRIDER_ENGINE_PYTHON"):
        find_device(PYTHON, answers(gpus="H100", vllm=None))


def test_without_a_gpu_the_command_says_so_in_one_line_and_ends_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.gpu.device._output", answers(gpus=None, vllm=None))
    assert command.main([]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert "nothing was checked" in said.err
