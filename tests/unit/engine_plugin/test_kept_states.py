"""Which of the kept hidden states hold for a slot of the KV cache. With tensors: see `tests/contract`."""

from __future__ import annotations

from outrider_engine.kept_states import NOTHING, newest


def test_of_two_states_for_one_slot_the_newer_one_holds() -> None:
    assert newest([7, 8, 7, NOTHING], 3) == {7: 2, 8: 1}


def test_what_was_written_before_the_ring_began_anew_is_older() -> None:
    assert newest([7, 8, 9, 7], 2) == {7: 0, 8: 1, 9: 2}


def test_a_place_that_holds_nothing_is_no_slot() -> None:
    assert newest([NOTHING, NOTHING], 0) == {}
