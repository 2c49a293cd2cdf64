"""Differences of one counter."""

from __future__ import annotations

from math import inf, nan

import pytest

from outrider.telemetry.cells import NoWindow, delta
from outrider.tuning.observe.window import GapReason


def refused(*values: float) -> NoWindow:
    with pytest.raises(NoWindow) as refusal:
        delta("tokens_total", values)
    return refusal.value


def test_a_counter_gains_what_lies_between_its_first_and_its_last_value() -> None:
    assert delta("tokens_total", (2.0, 5.0, 9.5)) == 7.5
    assert delta("tokens_total", (0.0, 0.0)) == 0.0


def test_a_counter_that_fell_between_was_reset_whatever_it_reached_later() -> None:
    found = refused(5.0, 1.0, 9.0)
    assert (found.reason, found.detail) == (GapReason.COUNTER_RESET, "tokens_total went backwards")


@pytest.mark.parametrize(
    "values", [(-1.0, 3.0), (nan, 3.0), (0.0, nan), (0.0, inf), (-inf, 0.0), (0.0, nan, 3.0)]
)
def test_what_no_counter_can_hold_is_a_contradiction(values: tuple[float, ...]) -> None:
    assert refused(*values).reason is GapReason.CONTRADICTORY
