"""An engine on a path that is not there ends, and says so: by the launcher, or in its own last words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.runtimes.vllm.shutdown import missing_model
from tests.contract import engine_process
from tests.contract.engine import MODELS, environment, launcher, server_flags

pytestmark = pytest.mark.contract

TERMINATION_MESSAGE_BYTES = 2048
"""Kubernetes keeps so much of the log of a container that failed."""


def test_a_missing_model_ends_with_a_reason(plugin: Path, tmp_path: Path) -> None:
    termination_log = tmp_path / "termination-log"
    termination_log.touch()
    speculation = {"method": "draft_model", "model": str(tmp_path / "nowhere-either")}
    flags = server_flags(target=tmp_path / "nowhere", speculation=speculation, port=1)
    variables = environment(plugin, OUTRIDER_TERMINATION_LOG=str(termination_log))
    ended = engine_process.run(launcher(flags), variables, timeout=120, start=engine_process.fork_server)
    assert ended.returncode == 78
    cause = json.loads(termination_log.read_text())
    assert cause["reason"] == "ModelNotFound"
    assert str(tmp_path / "nowhere") in cause["message"]
    assert json.loads(ended.log.splitlines()[-1]) == cause


@pytest.mark.parametrize(("target", "drafter"), [("nowhere", "drafter"), ("target", "nowhere")])
def test_a_stock_engine_names_the_missing_model_in_its_last_words(
    target: str, drafter: str, tmp_path: Path
) -> None:
    speculation = {"method": "draft_model", "model": str(MODELS / drafter)}
    flags = server_flags(target=MODELS / target, speculation=speculation, port=1)
    stock = launcher(flags, entry=("-m", "vllm.entrypoints.openai.api_server"))
    variables = environment(tmp_path, VLLM_PLUGINS="")
    ended = engine_process.run(stock, variables, timeout=400, start=engine_process.fork_server)
    assert ended.returncode == 1
    assert missing_model(ended.log[-TERMINATION_MESSAGE_BYTES:]) == str(MODELS / "nowhere")
