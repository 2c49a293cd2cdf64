from __future__ import annotations

from examples.demo.acceptance import differences
from examples.demo.measure import Drafts


def test_drafts_are_differences_of_counters() -> None:
    accepted, drafted = [(0.0, 10.0), (4.0, 30.0)], [(0.0, 20.0), (4.0, 60.0)]
    assert differences(accepted, drafted) == [Drafts(time=2.0, accepted=20.0, drafted=40.0)]


def test_spans_without_drafts_are_left_out() -> None:
    assert differences([(0.0, 5.0), (4.0, 5.0)], [(0.0, 9.0), (4.0, 9.0)]) == []


def test_a_counter_reset_is_left_out() -> None:
    assert differences([(0.0, 50.0), (4.0, 2.0)], [(0.0, 90.0), (4.0, 4.0)]) == []
