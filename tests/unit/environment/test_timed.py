from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.environment import timed
from tests.environment.timed import read_budget, run

ROOT = Path(__file__).resolve().parents[3]


def a_clock(*moments: float) -> Callable[[], float]:
    """A clock with these moments, one after the other."""
    told = iter(moments)
    return lambda: next(told)


def exits(**statuses: int) -> Callable[[str], int]:
    """Parts that end with these statuses."""
    return lambda name: statuses[name]


def rows(text: str) -> dict[str, str]:
    """The rest of each line of a table, by its first word."""
    return {line.split()[0]: " ".join(line.split()[1:]) for line in text.splitlines()}


def test_nothing_runs_after_a_part_that_failed() -> None:
    ran = run(["check", "unit", "cluster"], exits(check=0, unit=2), a_clock(0.0, 1.0, 1.0, 2.0))
    assert [(part.name, part.status) for part in ran] == [("check", 0), ("unit", 2)]


@pytest.fixture
def makefile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which `bad` fails and `killed` ends by a signal, and which allows no part any time."""
    (tmp_path / "Makefile").write_text("good:\n\t@true\nbad:\n\t@false\nkilled:\n\t@kill -KILL $$PPID\n")
    (tmp_path / "pyproject.toml").write_text("[tool.outrider.test-minutes]\ngood = 0\nbad = 0\n")
    monkeypatch.setattr(timed, "ROOT", tmp_path)
    return tmp_path / "Makefile"


@pytest.mark.usefixtures("makefile")
def test_a_part_that_fails_fails_the_whole_and_what_ran_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert timed.main(["good", "bad", "good"]) != 0
    assert list(rows(capsys.readouterr().out.strip())) == ["part", "good", "bad", "together"]


def test_every_part_of_make_test_is_a_target_with_a_budget() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    (parts,) = re.findall(r"timed\.py (.+)$", makefile, re.MULTILINE)
    budget = read_budget((ROOT / "pyproject.toml").read_text())
    assert parts.split() == list(budget)
    assert targets.issuperset(budget)
