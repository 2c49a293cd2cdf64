"""Every reason is set by the code and explained to the user."""

from __future__ import annotations

import inspect
from enum import StrEnum
from pathlib import Path

import pytest

from outrider.api import reasons
from outrider.api.reasons import ConditionType, EventReason

ROOT = Path(__file__).resolve().parents[3]
CODE = "\n".join(
    path.read_text()
    for path in sorted((ROOT / "operator" / "outrider").rglob("*.py"))
    if path.name != "reasons.py"
)
RUNBOOK = (ROOT / "docs" / "runbooks" / "conditions.md").read_text()

ENUMS = [
    member
    for _, member in inspect.getmembers(reasons, inspect.isclass)
    if issubclass(member, StrEnum) and member is not StrEnum
]
REASONS = [pytest.param(reason, id=f"{enum.__name__}.{reason.name}") for enum in ENUMS for reason in enum]


@pytest.mark.parametrize("reason", REASONS)
def test_the_code_sets_it(reason: StrEnum) -> None:
    name = f"{type(reason).__name__}.{reason.name}"
    assert name in CODE, f"nothing in operator/outrider sets {name}"


@pytest.mark.parametrize("reason", [p for p in REASONS if not isinstance(p.values[0], EventReason)])
def test_the_runbook_explains_it(reason: StrEnum) -> None:
    expected = f"## {reason}" if isinstance(reason, ConditionType) else f"| {reason} |"
    assert expected in RUNBOOK, f"explain it in docs/runbooks/conditions.md: {expected}"
