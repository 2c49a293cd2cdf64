"""Which drafts of a step adaptive verification trimmed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider_engine.counting.trimmed import UNKNOWN, TrimmedDrafts

POSITIONS = 3


def some_drafts() -> TrimmedDrafts:
    return TrimmedDrafts(POSITIONS, adaptive=True)


def index(*names: str) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}


def test_drafts_behind_the_verified_ones_are_trimmed() -> None:
    drafts = some_drafts()
    drafts.counted("a", 3)
    drafts.counted("b", 3)
    assert drafts.end_step([1, 3], index("a", "b")) == [0, 1, 1]


def test_the_worker_may_order_requests_otherwise() -> None:
    drafts = some_drafts()
    drafts.counted("a", 3)
    drafts.counted("b", 2)
    assert drafts.end_step([2, 0], index("b", "a")) == [1, 1, 1]


def test_a_request_that_vllm_does_not_count_is_not_trimmed() -> None:
    """It was aborted while the step ran."""
    drafts = some_drafts()
    drafts.counted("a", 3)
    assert drafts.end_step([3, 0], index("a", "aborted")) == [0, 0, 0]


def test_drafts_that_structured_output_forbids_are_neither_verified_nor_trimmed() -> None:
    """vLLM verifies them, and counts the others alone."""
    drafts = some_drafts()
    drafts.counted("a", 1)
    assert drafts.end_step([3], index("a")) == [0, 0, 0]


def test_a_step_without_drafts_has_none() -> None:
    drafts = some_drafts()
    assert drafts.end_step(None, {}) == ()
    assert not drafts.missing


def test_a_step_whose_worker_sends_nothing_is_reported_once_and_for_all() -> None:
    drafts = some_drafts()
    drafts.counted("a", 3)
    assert drafts.end_step(None, index("a")) is None
    assert drafts.to_wire() == {"adaptive": True, "trimmedDraftsCounted": False, "reason": UNKNOWN}


def test_a_step_that_is_not_counted_leaves_nothing_for_the_next() -> None:
    drafts = some_drafts()
    drafts.counted("a", 3)
    drafts.forget()
    drafts.counted("b", 2)
    assert drafts.end_step([0, 1], index("a", "b")) == [0, 1, 0]


def test_without_adaptive_verification_the_question_does_not_arise() -> None:
    wire = TrimmedDrafts(POSITIONS, adaptive=False).to_wire()
    assert wire == {"adaptive": False, "trimmedDraftsCounted": None, "reason": None}


@given(st.lists(st.tuples(st.integers(0, POSITIONS), st.integers(0, POSITIONS)), max_size=8))
def test_trimmed_and_verified_are_the_drafts(requests: list[tuple[int, int]]) -> None:
    drafts, verified = some_drafts(), [min(pair) for pair in requests]
    for place, pair in enumerate(requests):
        drafts.counted(str(place), max(pair))
    trimmed = drafts.end_step(verified, index(*map(str, range(len(requests)))))
    assert sum(trimmed or ()) + sum(verified) == sum(max(pair) for pair in requests)
