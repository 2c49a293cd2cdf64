from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.environment import timed
from tests.environment.timed import read_budget

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def makefile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which `bad` fails and `killed` ends by a signal, and which allows no part any time."""
    (tmp_path / "Makefile").write_text("good:\n\t@true\nbad:\n\t@false\nkilled:\n\t@kill -KILL $$PPID\n")
    (tmp_path / "pyproject.toml").write_text("[tool.outrider.test-minutes]\ngood = 0\nbad = 0\n")
    monkeypatch.setattr(timed, "ROOT", tmp_path)
    return tmp_path / "Makefile"


def test_every_part_of_make_test_is_a_target_with_a_budget() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    (parts,) = re.findall(r"timed\.py (.+)$", makefile, re.MULTILINE)
    budget = read_budget((ROOT / "pyproject.toml").read_text())
    assert parts.split() == list(budget)
    assert targets.issuperset(budget)
