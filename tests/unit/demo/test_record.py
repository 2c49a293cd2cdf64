"""The record of runs of the demo follows from the runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples.demo.beside_record import FOLDER, ROWS, Published
from examples.demo.phases import Arm
from examples.demo.result import Result
from tests.bench.demo_record import Run, kept, main, record_of, tables
from tests.bench.records.record import Record
from tests.unit.demo.factories import a_result

OVER_ZERO, OVER_LARGEST, LOWEST = ROWS


def a_run(commit: str = "abc1234") -> Run:
    return Run(commit, a_result())


def test_each_run_has_a_row_and_the_last_one_its_phases() -> None:
    runs, phases, ranges = tables([a_run("abc1234"), a_run("def5678")])
    assert [row[0] for row in runs.rows] == ["2026-01-01, abc1234", "2026-01-01, def5678"]
    assert phases.columns == ["phase of the run def5678, tokens/s", "K=0", "K=5", "Outrider"]
    assert [row[0] for row in phases.rows][::8] == [
        "code, 1 stream",
        "code and prose by turns of 4 s, 8 streams",
    ]
    assert ranges.columns[1] == "gain, two runs"
    assert [row[0] for row in ranges.rows] == list(ROWS)


def test_a_run_that_was_too_short_for_a_gain_makes_no_record() -> None:
    found = a_result()
    short = [one for one in found.stretches if one.arm is not Arm.NO_DRAFTS]
    with pytest.raises(ValueError, match="too few intervals"):
        record_of([Run("abc1234", found.model_copy(update={"stretches": short}))], "2026-01-01-demo")


def test_a_run_that_failed_makes_no_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "result.json"
    file.write_text(a_result(failed=3).model_dump_json(), encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["2026-01-01-demo", f"abc1234:{file}"])
    assert "the run failed" in capsys.readouterr().err


def test_what_is_kept_of_a_run_makes_the_same_tables() -> None:
    run = a_run()
    again = Run(run.commit, Result.model_validate(kept(run)["result"]))
    assert tables([again]) == tables([run])


def test_the_published_record_follows_from_the_runs_beside_it() -> None:
    name = Published.newest().name
    record = Record.model_validate_json((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert record.raw is not None
    raw = json.loads((FOLDER / record.raw).read_text(encoding="utf-8"))
    runs = [Run(each["commit"], Result.model_validate(each["result"])) for each in raw["runs"]]
    again = record_of(runs, name).model_copy(update={"older": record.older})
    assert again.model_dump(mode="json") == record.model_dump(mode="json")
