"""When failing drafts are a collapse, and when they are chance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.tuning.estimate.collapse import Drafts, has_collapsed

RATIO = 0.3
LONG = Drafts(7_000, 10_000)


@pytest.mark.parametrize("drafted", [1, 2, 3, 4])
def test_the_last_few_drafts_before_a_silence_may_all_be_rejected(drafted: int) -> None:
    assert not has_collapsed(Drafts(0, drafted), LONG, ratio=RATIO)


def test_ten_rejected_drafts_of_a_good_drafter_are_no_chance() -> None:
    assert has_collapsed(Drafts(0, 10), LONG, ratio=RATIO)


def test_a_short_history_proves_nothing() -> None:
    assert not has_collapsed(Drafts(0, 10), Drafts(1, 1), ratio=RATIO)


def test_a_drafter_that_was_never_good_needs_more_drafts_to_be_seen_failing() -> None:
    history = Drafts(2_000, 10_000)
    assert not has_collapsed(Drafts(0, 20), history, ratio=RATIO)
    assert has_collapsed(Drafts(0, 40), history, ratio=RATIO)


def test_without_a_history_there_is_nothing_to_fall_from() -> None:
    assert not has_collapsed(Drafts(0, 100), Drafts(0, 0), ratio=RATIO)


def test_a_history_that_dwarfs_the_newest_drafts_is_compared_all_the_same() -> None:
    assert has_collapsed(Drafts(0, 100), Drafts(1e300, 1e300), ratio=RATIO)


counts = st.floats(min_value=1e-6, max_value=1e300)
shares = st.floats(min_value=0.0, max_value=1.0)


@given(counts, shares, counts, shares)
def test_a_collapse_is_always_below_the_share_of_its_history(
    drafted: float, rate: float, before: float, history: float
) -> None:
    newest, old = Drafts(drafted * rate, drafted), Drafts(before * history, before)
    if has_collapsed(newest, old, ratio=RATIO):
        assert newest.rate < RATIO * old.rate
