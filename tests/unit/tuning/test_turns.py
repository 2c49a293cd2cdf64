"""Of several K with equal estimates, the tuner uses the least measured one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from outrider.api.reasons import DecisionReason
from outrider.api.schedule import Schedule
from outrider.tuning.decision import Kind
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.explore.tie_breaking import turn
from outrider.tuning.observe.readings import read
from outrider.tuning.policy import Policy
from outrider.tuning.state import BinState
from outrider.tuning.tick_context import TickContext
from tests.unit.tuning.factories import CANDIDATES, a_known, a_policy, a_start, a_window

NOW = 1000.0
SETTLED = BinState(k=2, decided=True, visited=True, settled_at=0.0)


def a_view(
    *, rival: float = 1.0, error: float = 0.03, bin_state: BinState = SETTLED, policy: Policy | None = None
) -> TickContext:
    """K=2 rules and is known to 0.5 %; K=3 has `rival` of its goodput; all others are hopeless."""
    policy = policy or a_policy()
    goodput = np.log(np.array([0.5, 0.5, 1.0, rival, 0.5]))
    covariance = np.diag([0.005, 0.005, 0.005, error, 0.005]) ** 2
    belief = Posterior(CANDIDATES, 8.0, goodput, covariance, np.full(5, -4.0), frozenset(CANDIDATES))
    index = policy.bin_of(8.0)
    state = replace(a_start(), known=(a_known(batch=8.0, k=2),)).with_bin(index, bin_state)
    windows = (a_window(k=2),)
    readings = read(windows, Schedule.constant(2), policy)
    return TickContext(state, policy, NOW, 5.0, index, {index: belief}, readings, windows)


def test_the_less_known_of_two_equals_takes_the_table() -> None:
    view = a_view()
    wish = turn(view)
    assert wish is not None
    assert (wish.kind, wish.reason) == (Kind.EXPLORE, DecisionReason.MOST_INFORMATIVE)
    assert wish.state.bins[view.bin].k == 3
    assert "equal within the error" in wish.sentence


def test_what_is_worse_as_far_as_is_known_gets_no_turn() -> None:
    assert turn(a_view(rival=0.97)) is None


def test_equals_that_are_as_well_known_as_each_other_do_not_take_turns() -> None:
    assert turn(a_view(error=0.005)) is None


def test_a_turn_lasts_until_the_rest_is_over() -> None:
    assert turn(a_view(bin_state=replace(SETTLED, settled_at=NOW - 5.0))) is None


def test_a_bin_that_is_not_settled_is_left_to_slices() -> None:
    assert turn(a_view(bin_state=replace(SETTLED, settled_at=None))) is None


def test_turns_leave_room_for_changes_to_a_better_k() -> None:
    changed_often = replace(SETTLED, changed_at=NOW - 30.0, switches=3.0)
    assert turn(a_view(bin_state=changed_often)) is None


def test_who_only_observes_gives_no_turns() -> None:
    assert turn(a_view(policy=a_policy().observing())) is None
