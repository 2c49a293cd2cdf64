"""The chart, as Helm renders it."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.chart.promql import PROMTOOL

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "outrider"
CACHE = Path(os.environ.get("OUTRIDER_CACHE", Path.home() / ".cache" / "outrider"))
HELM = shutil.which("helm") or shutil.which("helm", path=CACHE / "bin")
IMAGE = "image.repository=outrider/operator"
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not installed; `make cluster` builds it")


def render(*values: str, flags: tuple[str, ...] = (), release: str = "outrider") -> list[dict[str, Any]]:
    """The objects of the chart. values: as for ``helm --set``."""
    result = helm(*values, flags=flags, release=release)
    assert result.returncode == 0, result.stderr
    return [pickle.loads(document) for text in result.stdout.split("\n---\n") if (document := _parsed(text))]


@cache
def _parsed(text: str) -> bytes | None:
    """One object, for a copy of its own; most of them are the same whatever the values."""
    document = yaml.load(text, yaml.CSafeLoader)
    return pickle.dumps(document) if document else None


@cache
def helm(
    *values: str, flags: tuple[str, ...] = (), release: str = "outrider"
) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    settings = [argument for value in (IMAGE, *values) for argument in ("--set", value)]
    command = [HELM, "template", release, str(CHART), "--namespace", "outrider-system", *settings, *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def of_kind(kind: str, documents: list[dict[str, Any]]) -> dict[str, Any]:
    return next(document for document in documents if document["kind"] == kind)


def rules(role: dict[str, Any]) -> Iterator[tuple[str, str, frozenset[str]]]:
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                yield group, resource, frozenset(rule["verbs"])


needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not built; `make cluster` builds it"
)


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    assert PROMTOOL is not None
    return subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False)
