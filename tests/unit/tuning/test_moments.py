"""A state that was written while the clock was ahead."""

from __future__ import annotations

from outrider.tuning.estimate.surface import ObservedCell
from outrider.tuning.moments import not_ahead
from outrider.tuning.relaunch.state import Refused, RelaunchState
from outrider.tuning.state import BinState, TunerState
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import a_policy, with_parts

NOW, AHEAD = 1_800_000_000.0, 7200.0


def a_state(at: float) -> TunerState:
    """Everything in it happened then; the static table is pinned for half an hour."""
    known = ObservedCell(0, 3, None, 1.0, -3.0, 0.0, None, 0.0, at)
    bins = {0: BinState(3, settled_at=at, changed_at=at), 1: BinState(1)}
    return with_parts(
        TunerState.start(Schedule.constant(3), a_policy()),
        bins=bins,
        known=(known,),
        at=at,
        queued_since=at,
        until=at + 1800,
    )


def test_what_happened_in_the_future_happened_now_and_holds_for_as_long_as_it_was_to() -> None:
    assert not_ahead(a_state(NOW + AHEAD), NOW, ahead=AHEAD) == a_state(NOW)


def test_what_lies_in_the_past_is_left_as_it_is() -> None:
    state = a_state(NOW - 2000)

    assert not_ahead(state, NOW, ahead=AHEAD) is state


def test_moments_of_now_are_not_in_the_future() -> None:
    state = with_parts(a_state(NOW), until=NOW)

    assert not_ahead(state, NOW, ahead=1.0) is state


def test_what_ended_while_the_clock_was_ahead_has_ended() -> None:
    state = with_parts(a_state(NOW - 10), until=NOW + 60)
    after = not_ahead(state, NOW, ahead=AHEAD)

    assert after == with_parts(state, until=NOW)


def test_a_launch_is_refused_for_as_long_as_it_was_to_be() -> None:
    state = RelaunchState(
        started_at=NOW - 50, done_at=NOW + AHEAD, refused=(Refused("a", NOW + AHEAD + 600), Refused("b", NOW))
    )

    assert not_ahead(state, NOW, ahead=AHEAD) == RelaunchState(
        started_at=NOW - 50, done_at=NOW, refused=(Refused("a", NOW + 600), Refused("b", NOW))
    )
