"""Records of the tuner's benchmarks follow from their result files alone."""

from __future__ import annotations

import json

import pytest

from tests.bench.records.record import FOLDER, RAW, Record, records
from tests.bench.tuning.record import KINDS, record_of

KIND_BY_NAME = {
    "alternating-text": "alternating",
    "adaptive-verification": "verification",
    "rules-on-tables": "on-tables",
}
MADE = [record for record in records().values() if record.script == "python -m tests.bench.tuning.record"]


@pytest.mark.parametrize("record", MADE, ids=lambda record: str(record.name))
def test_the_script_makes_the_record_again(record: Record) -> None:
    kind = KINDS[KIND_BY_NAME[record.name.split("-", 3)[3]]]
    result = json.loads((FOLDER / f"{record.name}{RAW}").read_text(encoding="utf-8"))
    again = record_of(kind, result, record.name).model_copy(update={"older": record.older})
    assert again.model_dump(mode="json") == record.model_dump(mode="json")
