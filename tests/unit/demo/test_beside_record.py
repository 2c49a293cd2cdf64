"""The rows that end the demo."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.demo import beside_record
from examples.demo.beside_record import ROWS, Published, rows
from examples.demo.phases import Arm
from outrider.bench.verdict import Interval
from tests.unit.demo.factories import a_result

OVER_ZERO, OVER_LARGEST, LOWEST = ROWS


def agreement(published: dict[str, tuple[float, float]]) -> dict[str, str]:
    found = rows(a_result(), Published("a-record", "abc1234", published))
    return {row: agrees for row, _, _, agrees in found}


def test_a_run_agrees_where_its_interval_meets_the_published_range() -> None:
    """Outrider has 60 % more than K=0 and 7 % more than the largest K in the run of the factories."""
    ranges = {OVER_ZERO: (1.5, 1.7), OVER_LARGEST: (1.2, 1.3), LOWEST: (0.9, 1.0)}
    assert agreement(ranges) == {
        OVER_ZERO: "yes",
        OVER_LARGEST: "no, it is below",
        LOWEST: "no, it is above",
    }


def test_a_run_with_a_wide_interval_agrees_with_nothing() -> None:
    """It meets every range, so that says nothing."""
    assert beside_record.agreement(Interval(1.4, 0.7, 3.0), 1.46, 1.5) == "it cannot say"
    assert beside_record.agreement(Interval(1.5, 1.41, 1.61), 1.46, 1.5) == "yes"


def test_a_run_of_which_too_little_was_seen_says_so() -> None:
    found = a_result()
    short = [one for one in found.stretches if one.arm is not Arm.NO_DRAFTS or one.load != "prose x2"]
    published = Published("a-record", "abc1234", dict.fromkeys(ROWS, (1.0, 1.1)))
    cells = {row[0]: row[1:] for row in rows(found.model_copy(update={"stretches": short}), published)}
    assert cells[OVER_ZERO] == cells[LOWEST] == ("too few", "+0 to +10 %", "-")
    assert cells[OVER_LARGEST][0].startswith("+6.7 %")


def test_readme_has_the_rows_and_ranges_of_the_record() -> None:
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    published = Published.newest()
    for row, _, known, _ in rows(a_result(), published):
        assert re.search(rf"^\| {re.escape(row)} \| {re.escape(known)} \|$", readme, re.MULTILINE), row


def test_a_folder_without_a_record_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no record of the demo"):
        Published.newest(tmp_path)
