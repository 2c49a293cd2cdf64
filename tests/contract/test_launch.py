"""The launcher refuses to start vLLM on a path that is not there, and says so."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.contract.engine import environment, launcher, server_flags

pytestmark = pytest.mark.contract


def test_a_missing_model_ends_with_a_reason(plugin: Path, tmp_path: Path) -> None:
    termination_log = tmp_path / "termination-log"
    termination_log.touch()
    speculation = {"method": "draft_model", "model": str(tmp_path / "nowhere-either")}
    flags = server_flags(target=tmp_path / "nowhere", speculation=speculation, port=1)
    variables = environment(plugin, OUTRIDER_TERMINATION_LOG=str(termination_log))
    ended = subprocess.run(
        launcher(flags), env=variables, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 78
    cause = json.loads(termination_log.read_text())
    assert cause["reason"] == "ModelNotFound"
    assert str(tmp_path / "nowhere") in cause["message"]
    assert json.loads(ended.stderr.splitlines()[-1]) == cause
