"""What a check writes, and how a later run continues it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.performance.tables_file import parse_tables
from tests.gpu.record import OtherMachine, Status, continued, table
from tests.unit.gpu.records import ABOUT, a_record


def test_a_later_run_continues_where_the_first_was_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    record = a_record(file)
    record.write()
    later = continued(file, {**ABOUT, "date": "2026-12-01T11:00:00+00:00"})
    assert later.done("eagle3, static")
    assert later.done("eagle3, runner")
    assert not later.done("eagle3, k0")
    assert later.checks() == record.checks()
    assert later.about["earlier"] == [{"command": ABOUT["command"], "date": ABOUT["date"]}]


@pytest.mark.parametrize("what", ["device", "models", "commit", "engine"])
def test_figures_of_another_machine_or_commit_are_not_mixed(what: str, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    a_record(file).write()
    with pytest.raises(OtherMachine, match=f"another {what}; without --resume"):
        continued(file, {**ABOUT, what: "another"})


def test_the_table_is_one_that_simulate_reads(tmp_path: Path) -> None:
    record = a_record(tmp_path / "result.json")
    (found,) = parse_tables(json.dumps({"tables": record.tables}), "result").values()
    assert found.goodput(8, 3) == 900.0
    assert found.no_speculation(8) == 720.0
    assert found.survival(8, 3)[0] <= 1.0


def test_batch_sizes_without_every_k_are_left_out() -> None:
    made = table("x", [(1, 0, 10.0, None), (1, 2, 20.0, 1.0), (8, 0, 50.0, None)], unspeculated={}, source="")
    assert made["batch_sizes"] == [1]
    assert made["no_speculation_tokens_per_second"] is None


def test_the_file_says_how_far_each_part_came(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    a_record(file).write()
    parts = json.loads(file.read_text())["parts"]
    assert {name: part["status"] for name, part in parts.items()} == {
        "eagle3, static": Status.DONE,
        "eagle3, k0": Status.CUT_OFF,
        "eagle3, runner": Status.NOT_HERE,
    }
