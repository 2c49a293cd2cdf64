"""What the plugin finds in the process of an engine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from outrider_protocol.environment import STATIC_SCHEDULE_VARIABLE
from tests.unit.engine_plugin.factories import STATIC


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module vllm with a release, and nothing else."""
    module = ModuleType("vllm")
    module.__version__ = "0.32.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", module)


@pytest.fixture
def static_schedule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of the static schedule that the engine was launched with."""
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps(STATIC.to_wire()))
    monkeypatch.setenv(STATIC_SCHEDULE_VARIABLE, str(path))
    return path
