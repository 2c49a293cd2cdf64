from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.environment import timed
from tests.environment.timed import TOGETHER, read_budget

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def makefile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which `bad` fails, and `waits` runs until `good`, which is beside it, has run."""
    (tmp_path / "Makefile").write_text(
        "good:\n\t@echo well; touch ran\n"
        "waits:\n\t@until test -e ran; do sleep 0.1; done; echo late\n"
        "bad:\n\t@echo wrong; exit 3\n"
        "never:\n\t@touch never\n"
    )
    (tmp_path / "pyproject.toml").write_text("[tool.outrider.test-minutes]\ngood = 1\ntogether = 0\n")
    monkeypatch.setattr(timed, "ROOT", tmp_path)
    return tmp_path / "Makefile"


def test_every_part_of_make_test_is_a_target_with_a_budget() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    (parts,) = re.findall(r"timed\.py (.+)$", makefile, re.MULTILINE)
    budget = read_budget((ROOT / "pyproject.toml").read_text())
    assert [*parts.replace("+", " ").split(), TOGETHER] == list(budget)
    assert targets.issuperset(budget.keys() - {TOGETHER})


def test_parts_with_a_plus_run_at_once_and_the_output_of_each_follows_its_end(
    makefile: Path,  # noqa: ARG001
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert timed.main(["waits+good"]) == 0
    printed, _ = capfd.readouterr()
    assert "--- good ---\nwell\n" in printed
    assert "--- waits ---\nlate\n" in printed
    assert "over budget" in next(line for line in printed.splitlines() if line.startswith(TOGETHER))


def test_a_part_that_fails_ends_the_run_after_those_beside_it(
    makefile: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert timed.main(["bad+good", "never"]) == 2
    printed, _ = capfd.readouterr()
    assert "--- bad ---\nwrong\n" in printed
    assert "--- good ---\nwell\n" in printed
    assert not (makefile.parent / "never").exists()
