"""Of several K with equal estimates, the tuner uses the least measured one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from outrider.api.reasons import DecisionReason
from outrider.tuning.decision import Kind, Proposal
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.explore.probing import break_tie
from outrider.tuning.observe.readings import read
from outrider.tuning.policy import Policy
from outrider.tuning.state import BinState
from outrider.tuning.tick_context import TickContext
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import CANDIDATES, a_known, a_policy, a_start, a_window, with_parts

NOW = 1000.0
SETTLED = BinState(k=2, decided=True, visited=True, settled_at=0.0)


def a_context(
    *, rival: float = 1.0, error: float = 0.03, bin_state: BinState = SETTLED, policy: Policy | None = None
) -> TickContext:
    """K=2 is in force and known to 0.5 %; K=3 has `rival` of its goodput; all others are hopeless."""
    policy = policy or a_policy()
    goodput = np.log(np.array([0.5, 0.5, 1.0, rival, 0.5]))
    covariance = np.diag([0.005, 0.005, 0.005, error, 0.005]) ** 2
    belief = Posterior(CANDIDATES, 8.0, goodput, covariance, np.full(5, -4.0), frozenset(CANDIDATES))
    index = policy.bin_of(8.0)
    state = with_parts(a_start(), known=(a_known(batch=8.0, k=2),)).with_bin(index, bin_state)
    windows = (a_window(k=2),)
    readings = read(windows, Schedule.constant(2), policy)
    context = TickContext(
        windows,
        state,
        policy=policy,
        now=NOW,
        tick_seconds=5.0,
        readings=readings,
        posteriors={index: belief},
    )
    return replace(context, chosen=context.hold_settled())


def turn(context: TickContext) -> Proposal | None:
    """The choice in place of the settled one; None if that stays."""
    chosen = break_tie(context).chosen
    return None if chosen == context.chosen else chosen


def test_the_less_known_of_two_equals_takes_the_table() -> None:
    context = a_context()
    found = turn(context)
    assert found is not None
    assert (found.kind, found.reason) == (Kind.EXPLORE, DecisionReason.MOST_INFORMATIVE)
    assert found.state.bins[context.bin].k == 3
    assert "equal within the error" in found.sentence


def test_what_is_worse_as_far_as_is_known_gets_no_turn() -> None:
    assert turn(a_context(rival=0.97)) is None


def test_equals_that_are_as_well_known_as_each_other_do_not_take_turns() -> None:
    assert turn(a_context(error=0.005)) is None


def test_a_turn_lasts_until_the_rest_is_over() -> None:
    assert turn(a_context(bin_state=replace(SETTLED, settled_at=NOW - 5.0))) is None


def test_a_bin_that_is_not_settled_is_left_to_slices() -> None:
    assert turn(a_context(bin_state=replace(SETTLED, settled_at=None))) is None


def test_turns_leave_room_for_changes_to_a_better_k() -> None:
    changed_often = replace(SETTLED, changed_at=NOW - 30.0, switches=3.0)
    assert turn(a_context(bin_state=changed_often)) is None


def test_who_only_observes_gives_no_turns() -> None:
    assert turn(a_context(policy=a_policy().observing())) is None
