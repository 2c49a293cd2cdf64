"""Threads take short turns while the operator runs."""

from __future__ import annotations

import sys

from outrider.controller.turns_of_threads import SECONDS, short_turns


def test_turns_are_short_in_the_block_alone() -> None:
    before = sys.getswitchinterval()
    with short_turns():
        assert abs(sys.getswitchinterval() - SECONDS) < 1e-6
    assert sys.getswitchinterval() == before
