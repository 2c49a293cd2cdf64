"""Measures every case; one JSON line per reader: ``python -m tests.unit.foreign.measure [name]``."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator
from typing import Any

from outrider.controller.process import room_for_deep_json
from tests.unit.foreign.cases import CASES


def _all(names: list[str]) -> Iterator[dict[str, Any]]:
    gc.collect()
    gc.freeze()  # children look at what they make alone
    with room_for_deep_json():
        for case in CASES:
            if not names or case.reader.name in names:
                yield {"reader": case.reader.name, **case.worst()._asdict()}


if __name__ == "__main__":
    for found in _all(sys.argv[1:]):
        print(json.dumps(found), flush=True)
