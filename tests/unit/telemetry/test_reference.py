"""docs/reference/metrics.md lists what is read and what is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import Metric

from outrider.runtimes.vllm import metrics as names
from outrider.tuning.observe.window import GapReason
from tests.unit.controller.full_metrics import families, full_metrics

PAGE = (Path(__file__).parents[3] / "docs/reference/metrics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*names.DIALECT.of_engine, *names.DIALECT.of_plugin])
def test_every_metric_that_is_read_is_listed(name: str) -> None:
    assert f"`{name.removeprefix('vllm:')}" in PAGE


@pytest.mark.parametrize("reason", GapReason)
def test_every_gap_is_explained(reason: GapReason) -> None:
    assert f"| `{reason}` |" in PAGE


def documented() -> list[tuple[str, tuple[str, ...]]]:
    """Name and labels of each metric that the operator writes."""
    rows = re.findall(r"^\| `(outrider_\w+)(?:\{(.*?)\})?` \|", PAGE, re.MULTILINE)
    return sorted((name, tuple(sorted(filter(None, labels.split(","))))) for name, labels in rows)


def labels_of(family: Metric) -> tuple[str, ...]:
    return tuple(sorted({label for sample in family.samples for label in sample.labels} - {"le"}))


def test_every_metric_that_is_written_is_listed_with_its_labels_and_no_other() -> None:
    written = families(full_metrics())

    assert documented() == sorted((name, labels_of(family)) for name, family in written.items())
