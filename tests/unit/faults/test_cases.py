"""The page of cases numbers them, and names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.lifecycle.releases import ROOT

PAGE = ROOT / "docs" / "reference" / "faults.md"
_ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def rows() -> dict[int, str]:
    return {int(number): tests for number, _, tests in _ROW.findall(PAGE.read_text())}


def test_cases_are_numbered_in_their_order() -> None:
    assert list(rows()) == list(range(1, len(rows()) + 1))
    assert len(rows()) >= 37


def test_each_case_has_a_test_and_each_test_exists() -> None:
    for number, cell in rows().items():
        found = _TEST.findall(cell)
        assert found, f"case {number} names no test"
        for file, name in found:
            path = Path(ROOT / file)
            assert path.exists(), f"case {number}: {file}"
            assert not name or f"def {name}(" in path.read_text(), f"case {number}: {file}::{name}"
