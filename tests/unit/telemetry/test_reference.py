"""docs/reference/metrics.md tells what is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.telemetry import names
from outrider.tuning.observe.window import GapReason

PAGE = (Path(__file__).parents[3] / "docs/reference/metrics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", names.ALL)
def test_every_metric_that_is_read_is_listed(name: str) -> None:
    assert f"`{name.removeprefix('vllm:')}" in PAGE


@pytest.mark.parametrize("reason", GapReason)
def test_every_gap_is_explained(reason: GapReason) -> None:
    assert f"| `{reason}` |" in PAGE
