"""An engine of SGLang, in one process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider_protocol.environment import STATIC_SCHEDULE_VARIABLE
from outrider_sglang.sglang_adapter import scheduler_process
from tests.unit.engine_plugin.factories import a_table
from tests.unit.sglang_plugin import fake_sglang

STATIC = a_table((2, 1), above=0)


@pytest.fixture(autouse=True)
def sglang(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process of SGLang that has loaded nothing yet, with a static schedule."""
    fake_sglang.install(monkeypatch)
    monkeypatch.setattr(scheduler_process, "_process", scheduler_process._Process())
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps(STATIC.to_wire()))
    monkeypatch.setenv(STATIC_SCHEDULE_VARIABLE, str(path))
