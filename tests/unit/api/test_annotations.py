"""What a person may set by annotations, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from outrider.api.annotations import (
    FORGET,
    MAX_REQUEST,
    OVERRIDE,
    OVERRIDE_UNTIL,
    PAUSED,
    Instructions,
    read_instructions,
)
from outrider.api.tuning import Actuation
from outrider_protocol.schedule import Row, Schedule

UNTIL = "2026-01-31T18:00:00Z"


def read(actuation: Actuation = Actuation.LIVE, **annotations: str) -> Instructions:
    names = {"paused": PAUSED, "override": OVERRIDE, "until": OVERRIDE_UNTIL, "forget": FORGET}
    given = {names[short]: value for short, value in annotations.items()}
    return read_instructions(given, candidates=(0, 1, 3), actuation=actuation)


def refusal(**annotations: str) -> str:
    found = read(Actuation.LIVE, **annotations)
    assert (found.paused, found.override) == (False, None)
    assert found.refused is not None
    return found.refused


def test_without_annotations_there_are_no_instructions() -> None:
    other = {"other/annotation": "x"}
    assert read_instructions(other, candidates=(0,), actuation=Actuation.LIVE) == Instructions()


def test_true_pauses_and_false_does_not() -> None:
    assert read(paused="true").paused
    assert not read(paused="false").paused


def test_an_override_is_a_table_with_an_end() -> None:
    override = read(override="8:3,*:0", until=UNTIL).override
    assert override is not None
    assert override.schedule == Schedule((Row(8, 3), Row(None, 0)))
    assert override.until == datetime(2026, 1, 31, 18, tzinfo=UTC)


@pytest.mark.parametrize("value", ["", "1", "2026-01-31 after the new drafter", "x" * MAX_REQUEST])
def test_a_request_to_forget_is_any_short_text(value: str) -> None:
    assert read(forget=value) == Instructions(forget=value)


def test_a_request_to_forget_that_is_too_long_to_keep_is_refused() -> None:
    assert refusal(forget="x" * 65) == (
        "outrider.dev/reset-tuner has 65 characters: write at most 64, such as a time."
    )


def test_an_end_may_have_any_zone() -> None:
    override = read(override="*:0", until="2026-01-31T20:00:00+02:00").override
    assert override is not None
    assert override.until == datetime(2026, 1, 31, 18, tzinfo=UTC)


def test_an_override_needs_an_end() -> None:
    assert f"set {OVERRIDE_UNTIL} to a time such as" in refusal(override="*:0")


def test_an_end_alone_is_refused() -> None:
    assert "set both, or remove it" in refusal(until=UNTIL)


@pytest.mark.parametrize("until", ["", "soon", "2026-01-31T18:00:00", "18:00Z", "2026-13-01T00:00:00Z"])
def test_an_end_that_is_no_moment_is_refused(until: str) -> None:
    assert "write a time with its zone" in refusal(override="*:0", until=until)


@pytest.mark.parametrize(
    "text", ["", "3", "8:3", "*:x", "8:3,4:1,*:0", "*:0,8:3", "0:1,*:0", "8:-1,*:0", "8;3"]
)
def test_a_table_that_cannot_be_read_is_refused_with_the_right_form(text: str) -> None:
    complaint = refusal(override=text, until=UNTIL)
    assert "row " in complaint
    assert "Write it like 8:3,32:1,*:0" in complaint


def test_only_captured_k_may_be_set() -> None:
    assert "K=2, which the engines did not capture: use 0, 1, 3" in refusal(override="8:2,*:0", until=UNTIL)


def test_a_stock_engine_takes_no_override() -> None:
    found = read(Actuation.ROLLOUT, override="*:0", until=UNTIL)
    assert found.override is None
    assert "needs tuning.actuation: Live" in str(found.refused)
    assert "change spec.speculation.schedule" in str(found.refused)


def test_a_stock_engine_takes_a_pause() -> None:
    assert read(Actuation.ROLLOUT, paused="true") == Instructions(paused=True)


@pytest.mark.parametrize("value", ["True", "yes", "1", ""])
def test_a_pause_that_is_neither_true_nor_false_is_refused(value: str) -> None:
    assert 'set it to "true", or remove it' in refusal(paused=value)


def test_a_long_value_is_shortened_in_the_complaint() -> None:
    assert len(refusal(paused="x" * 5000)) < 200


def test_one_refused_annotation_leaves_the_other_in_force() -> None:
    found = read(paused="true", override="nonsense", until=UNTIL)
    assert found.paused
    assert found.override is None
    assert found.refused is not None


rows = st.lists(st.integers(1, 10_000), unique=True, max_size=6).map(sorted)


@given(rows, st.data())
def test_every_table_is_read_back_from_its_own_spelling(edges: list[int], data: st.DataObject) -> None:
    k = st.integers(0, 99)
    rows = (*(Row(edge, data.draw(k)) for edge in edges), Row(None, data.draw(k)))
    assert Schedule.parse(str(Schedule(rows))) == Schedule(rows)


def parsed(text: str) -> Schedule | str:
    """The table of any text, or the complaint about it."""
    try:
        return Schedule.parse(text)
    except ValueError as error:
        return str(error)


@st.composite
def nearly_tables(draw: st.DrawFn) -> str:
    """The spelling of a table; in half of the cases something stands inside that does not belong there."""
    edges = draw(rows)
    text = str(Schedule((*(Row(edge, 3) for edge in edges), Row(None, draw(st.integers(0, 99))))))
    if draw(st.booleans()):
        return text
    cut = draw(st.integers(0, len(text)))
    return text[:cut] + draw(st.text("0123456789:,*- ²x", min_size=1, max_size=2)) + text[cut:]


@given(nearly_tables())
def test_text_that_is_read_as_a_table_reads_back_from_its_spelling(text: str) -> None:
    table = parsed(text)
    assume(isinstance(table, Schedule))
    assert parsed(str(table)) == table


@given(st.text(max_size=30) | nearly_tables())
def test_any_text_is_a_table_or_a_complaint_about_a_row(text: str) -> None:
    complaint = parsed(text)
    assume(isinstance(complaint, str))
    assert isinstance(complaint, str)
    assert complaint.startswith("row ")


@pytest.mark.parametrize("until", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_an_end_at_the_edge_of_the_calendar_is_refused(until: str) -> None:
    assert "write a time with its zone" in refusal(override="*:0", until=until)


def test_a_table_of_more_rows_than_a_status_shows_is_refused() -> None:
    rows = ",".join(f"{size}:0" for size in range(1, 65))
    assert "a schedule has 64 at most" in refusal(override=f"{rows},*:0", until=UNTIL)
