"""Which of the kept hidden states hold for a slot of the KV cache. With tensors: see `tests/contract`."""

from __future__ import annotations

import numpy as np

from outrider_engine.idle_drafter.hidden_state_cache import NOTHING, newest


def rows(kept: list[int], oldest: int, *slots: int) -> list[int]:
    """The row of each slot."""
    found: list[int] = newest(np.array(kept), oldest, np.array(slots)).tolist()
    return found


def test_of_two_states_for_one_slot_the_newer_one_holds() -> None:
    assert rows([7, 8, 7, NOTHING], 3, 7, 8) == [2, 1]


def test_what_was_written_before_the_ring_began_anew_is_older() -> None:
    assert rows([7, 8, 9, 7], 2, 9, 8, 7) == [2, 1, 0]


def test_a_slot_that_was_not_kept_has_no_row() -> None:
    assert rows([5, 7], 0, 4, 6, 8, 7) == [NOTHING, NOTHING, NOTHING, 1]


def test_of_nothing_that_was_kept_no_slot_has_a_row() -> None:
    assert rows([NOTHING, NOTHING], 0, 3) == [NOTHING]
