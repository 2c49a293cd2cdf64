"""The reasons: each belongs to one condition, has a meaning, and says what to do where it needs a person.

That each is really given is shown by `tests/unit/reasons`; `tests/unit/tuning/test_reference.py` has the
page about decisions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.api import conditions_page
from outrider.api.conditions import ConditionType, Manager, condition_of, conditions_owned_by, reason_of
from outrider.api.reason import Need, Reason
from outrider.api.reasons import DegradedReason, EventReason, ReadyReason

DOCS = Path(__file__).parents[3] / "docs"
ALL: tuple[Reason, ...] = (*(each for kind in ConditionType for each in kind.reasons), *EventReason)


def named(reason: Reason) -> str:
    return f"{type(reason).__name__}.{reason}"


@pytest.mark.parametrize("kind", ConditionType)
def test_a_reason_belongs_to_one_condition(kind: ConditionType) -> None:
    assert {condition_of(reason) for reason in kind.reasons} == {kind}


def test_each_field_manager_owns_conditions() -> None:
    assert {kind.owner for kind in ConditionType} == set(Manager)
    assert sum(len(conditions_owned_by(manager)) for manager in Manager) == len(ConditionType)


@pytest.mark.parametrize("kind", ConditionType)
def test_a_condition_notes_reasons_of_its_own(kind: ConditionType) -> None:
    assert kind.notable <= set(kind.reasons)


@pytest.mark.parametrize("kind", [each for each in ConditionType if each.events is not None])
def test_an_unhealthy_condition_emits_a_warning_and_its_end_does_not(kind: ConditionType) -> None:
    assert kind.events is not None
    assert [event.severity for event in kind.events] == ["Warning", "Normal"]


@pytest.mark.parametrize("reason", ALL, ids=named)
def test_a_reason_says_what_it_means_in_whole_sentences(reason: Reason) -> None:
    assert reason.meaning.endswith(".")
    assert reason.do == "" or reason.do.endswith(".")


@pytest.mark.parametrize(
    "reason", [each for each in ALL if each.need in (Need.PERSON, Need.RETRIED)], ids=named
)
def test_a_reason_that_needs_a_person_says_what_to_do(reason: Reason) -> None:
    assert reason.do


@pytest.mark.parametrize("reason", [each for each in ALL if each.page], ids=named)
def test_a_reason_names_a_page_that_is_there(reason: Reason) -> None:
    assert (DOCS / reason.page).is_file()


def test_what_to_do_reads_in_a_terminal() -> None:
    assert [each for each in ALL if "](" in each.do or "docs/" in each.do] == []


def test_a_stored_reason_is_found_by_its_condition() -> None:
    assert reason_of("Ready", "RolledBack") is ReadyReason.ROLLED_BACK
    assert reason_of("Degraded", "RolledBack") is DegradedReason.ROLLED_BACK


def test_a_reason_of_another_version_is_unknown() -> None:
    assert reason_of("Ready", "Suits") is None
    assert reason_of("LaunchSuits", "Suits") is None


def test_the_runbook_is_up_to_date() -> None:
    assert (DOCS / "runbooks" / conditions_page.FILE_NAME).read_text(encoding="utf-8") == (
        conditions_page.render()
    ), "stale: run `python -m outrider.api.conditions_page --write docs/runbooks/`"
