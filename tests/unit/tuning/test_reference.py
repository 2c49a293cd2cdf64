"""docs/reference/tuning.md tells what the code does."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from outrider.tuning.decision import DecisionReason
from outrider.tuning.policy import Policy

PAGE = (Path(__file__).parents[3] / "docs/reference/tuning.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("reason", DecisionReason)
def test_every_reason_is_explained(reason: DecisionReason) -> None:
    assert f"| `{reason}` |" in PAGE, f"explain {reason} in docs/reference/tuning.md"


@pytest.mark.parametrize(
    "number", [f for f in fields(Policy) if isinstance(f.default, int | float)], ids=lambda f: f.name
)
def test_every_number_stands_there_with_its_default(number: object) -> None:
    assert f"| `{number.name}` | {number.default} |" in PAGE  # type: ignore[attr-defined]


def test_no_reason_is_explained_that_does_not_exist() -> None:
    rows = [
        line.split("|")[2].strip(" `")
        for line in PAGE.splitlines()
        if line.startswith(("| Hold", "| Ex", "| Roll"))
    ]
    assert sorted(rows) == sorted(DecisionReason)
