"""The traces that people read are those of the law."""

from __future__ import annotations

import pytest

from tests.unit.tuning.golden import FOLDER, GUARDRAILS, MAPS, TRACES, trace


@pytest.mark.parametrize("name", [*TRACES, *MAPS, GUARDRAILS])
def test_the_law_decides_as_in_its_trace(name: str) -> None:
    assert trace(name) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), (
        "read the difference; if it is meant, python -m tests.unit.tuning.golden --write"
    )
