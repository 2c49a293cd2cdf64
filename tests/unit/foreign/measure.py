"""Measures every case; one JSON line per reader: ``python -m tests.unit.foreign.measure [name]``."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator
from typing import Any

from outrider.cluster.deep_json import room_for_deep_json
from tests.unit.foreign.case import Case
from tests.unit.foreign.cases import CASES


def worst(case: Case) -> dict[str, Any]:
    """The most CPU and the most memory that one input cost, each with the input's name."""
    costs = list(case.cost())
    slowest, largest = (
        max(costs, key=lambda cost: cost.cpu_seconds),
        max(costs, key=lambda cost: cost.peak_bytes),
    )
    return {
        "reader": case.reader.name,
        "inputs": len(costs),
        "cpu_seconds": slowest.cpu_seconds,
        "slowest": slowest.name,
        "peak_bytes": largest.peak_bytes,
        "largest": largest.name,
    }


def _all(names: list[str]) -> Iterator[dict[str, Any]]:
    gc.collect()
    gc.freeze()  # children look at what they make alone
    with room_for_deep_json():
        for case in CASES:
            if not names or case.reader.name in names:
                yield worst(case)


if __name__ == "__main__":
    for found in _all(sys.argv[1:]):
        print(json.dumps(found), flush=True)
