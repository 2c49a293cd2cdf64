"""What drafts say of the next ones, by how long ago they were."""

from __future__ import annotations

import pytest

from outrider_protocol.acceptance import Acceptance

POSITIONS = 4
BAD, GOOD = [0.0] * POSITIONS, [1.0] * POSITIONS


def good_drafts_until(tokens: float, *, steps: int) -> int:
    """Drafts of one request that were all accepted, after many of which none was.

    steps: from each draft to the next.
    """
    acceptance = Acceptance(POSITIONS)
    for _ in range(30):
        acceptance.add(POSITIONS, 1, BAD, steps)
    for count in range(1, 30):
        acceptance.add(POSITIONS, 1, GOOD, steps)
        if acceptance.tokens[POSITIONS] > tokens:
            return count
    raise AssertionError("never")


@pytest.mark.parametrize(("steps", "most"), [(1, 5), (50, 3), (200, 2)])
def test_drafts_of_long_ago_say_little_about_the_text(steps: int, most: int) -> None:
    """At K=0 one user's text shows one draft every few seconds."""
    assert good_drafts_until(2.0, steps=steps) <= most


def test_one_lucky_draft_does_not_make_bad_text_good() -> None:
    assert good_drafts_until(1.5, steps=200) > 1
