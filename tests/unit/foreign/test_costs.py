"""Every reader of foreign input keeps to the CPU time and the memory that the registry declares for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from outrider.foreign import READERS, Reader
from tests.unit.foreign.cases import CASES


@pytest.fixture(scope="module")
def costs() -> Mapping[str, Any]:
    """By reader: the most that one input cost."""
    measured = subprocess.run(
        [sys.executable, "-m", "tests.unit.foreign.measure"], capture_output=True, text=True, check=True
    )
    found = map(json.loads, measured.stdout.splitlines())
    return {each["reader"]: each for each in found}


def test_every_reader_has_one_case() -> None:
    assert Counter(case.reader for case in CASES) == Counter(READERS)
    assert len({reader.name for reader in READERS}) == len(READERS)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_the_most_expensive_input_costs_what_the_registry_declares(
    reader: Reader, costs: Mapping[str, Any]
) -> None:
    cost = costs[reader.name]

    assert cost["cpu_seconds"] <= reader.cpu_seconds, cost["slowest"]
    assert cost["peak_bytes"] <= reader.peak_bytes, cost["largest"]
