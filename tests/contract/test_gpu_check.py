"""The check of a GPU, without one: its parts on real engines of made models, and their results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.performance.tables_file import read_tables
from tests.gpu.__main__ import main
from tests.gpu.record import Status

pytestmark = pytest.mark.contract

SHORTEST = (
    *("--engine", "cpu"),
    *("--candidates", "0,2"),
    *("--table-streams", "1"),
    *("--tokens", "8"),
    *("--pairs", "4"),
    *("--minutes", "10"),
)
PARTS = "first-page,profile,rows"
"""One engine starts. `make gpu-check ARGS="--engine interpreted"` runs all of them."""


def test_its_parts_run_on_a_cpu_and_a_later_run_has_nothing_left(plugin: Path, tmp_path: Path) -> None:
    given = [*SHORTEST, "--plugin", str(plugin), "--output", str(tmp_path), "--parts", PARTS]
    assert main(given) == 0
    first = result(tmp_path)
    assert statuses(first) == dict.fromkeys(PARTS.split(","), Status.DONE)
    assert set(first["starts"]) == {"eagle3, first page"}
    verdicts = {check["name"]: check["verdict"] for check in first["parts"]["eagle3, first-page"]["checks"]}
    assert set(verdicts.values()) == {"met"}, verdicts
    assert (tmp_path / "page.html").exists()
    assert read_tables(tmp_path / "tables.json")["dry_run_eagle3"].candidates == (0, 2)
    assert main([*given, "--resume"]) == 0
    again = result(tmp_path)
    assert again["parts"] == first["parts"]
    assert again["starts"] == first["starts"]


def test_parts_without_time_are_named_and_fail_the_check(plugin: Path, tmp_path: Path) -> None:
    given = [*SHORTEST, "--plugin", str(plugin), "--output", str(tmp_path), "--parts", "k0", "--minutes", "0"]
    assert main(given) == 1
    assert statuses(result(tmp_path)) == {"k0": Status.NO_TIME}


def result(folder: Path) -> Any:
    return json.loads((folder / "result.json").read_text())


def statuses(found: Any) -> dict[str, str]:
    return {name.partition(", ")[2]: part["status"] for name, part in found["parts"].items()}
