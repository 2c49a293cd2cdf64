"""The list of reasons: each belongs to one condition, and is explained to the user.

That each is really given is shown by `tests/unit/reasons`; `tests/unit/tuning/test_reference.py` has the
page about decisions.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import pytest

from outrider.api.reasons import REASONS_OF, ConditionType, EventReason, condition_of

RUNBOOK = (Path(__file__).parents[3] / "docs/runbooks/conditions.md").read_text(encoding="utf-8")


def rows(title: str) -> set[str]:
    """The words in the first column of the table under a title."""
    _, found, rest = RUNBOOK.partition(f"## {title}\n")
    assert found, f"there is no section {title}"
    section = rest.partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    return {word.strip() for cell in cells[2:] for word in cell.split(",")}


def words(listed: type[StrEnum]) -> set[str]:
    return {str(reason) for reason in listed}


def test_every_condition_has_its_reasons() -> None:
    assert set(REASONS_OF) == set(ConditionType)


@pytest.mark.parametrize("kind", ConditionType)
def test_a_reason_tells_which_condition_it_is_about(kind: ConditionType) -> None:
    assert {condition_of(reason) for reason in REASONS_OF[kind]} == {kind}


@pytest.mark.parametrize("kind", ConditionType)
def test_the_runbook_explains_each_reason_of_a_condition_and_no_other(kind: ConditionType) -> None:
    assert rows(kind) == words(REASONS_OF[kind])


def test_the_runbook_explains_each_event_and_no_other() -> None:
    told = rows("Events of the reconciler") | rows("Events of the tuner")
    assert told == words(EventReason)
