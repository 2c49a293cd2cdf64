"""The record of the comparison by kind of traffic follows from its result file alone."""

from __future__ import annotations

import json

import pytest

from tests.bench.records.record import FOLDER, RAW, Record, records
from tests.bench.traffic.record import PICTURE, compact, picture, record_of
from tests.bench.traffic.runs import OUTRIDER

MADE = [record for record in records().values() if record.script == "python -m tests.bench.traffic.record"]


@pytest.mark.parametrize("record", MADE, ids=lambda record: str(record.name))
def test_the_script_makes_the_tables_of_the_record_again(record: Record) -> None:
    result = json.loads((FOLDER / f"{record.name}{RAW}").read_text())
    again = record_of(result, record.name)
    assert again.tables == record.tables
    assert again.figures == record.figures
    assert result["draws_of"] in record.command


def test_the_picture_is_what_the_script_draws_of_the_newest_record() -> None:
    assert PICTURE.read_text() == picture(MADE[-1].tables[1])


def test_a_result_keeps_the_phases_of_outrider_at_the_overhead_of_the_headline() -> None:
    phase = {"label": "one", "gain": 0.123456, "regret": 0.0, "settled": None}
    found = {rule: {"gain": 0.123456, "phases": [phase]} for rule in (OUTRIDER, "hand")}
    rows = [{"overhead": overhead, "found": found} for overhead in (0.1, 0.0)]
    first, second = compact(rows)
    assert first["found"][OUTRIDER]["phases"] == [{**phase, "gain": 0.1235}]
    assert first["found"]["hand"] == {"gain": 0.1235, "phases": []}
    assert second["found"][OUTRIDER]["phases"] == []
