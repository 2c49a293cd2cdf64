from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.engine.records import Journal, OtherPlan
from tests.unit.bench_engine.factories import a_block


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "journal.jsonl"


def test_a_run_resumes_after_the_recorded_units(path: Path) -> None:
    units = [a_block(number, {"0": 100}) for number in range(2)]
    for unit in units:
        Journal(path, "plan").append(unit)
    assert Journal(path, "plan").read() == {unit.key: unit for unit in units}


def test_a_line_that_was_being_written_is_a_unit_to_drive_again(path: Path) -> None:
    whole, torn, later = (a_block(number, {"0": 100}) for number in range(3))
    journal = Journal(path, "plan")
    journal.append(whole)
    journal.append(torn)
    path.write_bytes(path.read_bytes()[:-20])
    journal.append(later)
    assert journal.read() == {whole.key: whole, later.key: later}


def test_another_plan_is_refused(path: Path) -> None:
    Journal(path, "plan").append(a_block(0, {"0": 100}))
    with pytest.raises(OtherPlan, match="--restart"):
        Journal(path, "other").read()
