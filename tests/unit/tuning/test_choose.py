"""Which K takes over, goes back or is guessed, from a belief that is given."""

from __future__ import annotations

from dataclasses import replace

from outrider.tuning.choose.choice import challenger, follow_other_bins, measured_ks, reverted, usable
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.estimate.surface import ObservedCell
from outrider.tuning.policy import Policy
from outrider.tuning.state import BinState, TunerState
from outrider.tuning.tick_context import TickContext
from tests.unit.tuning.factories import CANDIDATES, POLICY, a_belief, a_policy, a_reading, a_start, with_parts

NOW = 1000.0
ALL = frozenset(CANDIDATES)
SETTLED = BinState(1, decided=True, visited=True, settled_at=0.0)
OPEN = replace(SETTLED, settled_at=None)


def chosen(
    state: BinState, belief: Posterior, *, policy: Policy = POLICY, measured: frozenset[int] = ALL
) -> int | None:
    return challenger(state, belief, measured, policy)


# The SLO


def test_without_an_slo_all_candidates_are_usable() -> None:
    assert usable(a_belief({}), POLICY) == CANDIDATES


def test_a_k_whose_steps_are_longer_than_the_slo_is_not_usable() -> None:
    belief = a_belief({}, steps={0: 0.01, 1: 0.02, 2: 0.03, 3: 0.04, 5: 0.05})
    assert usable(belief, a_policy(inter_token_latency_limit=0.031)) == (0, 1, 2)


def test_where_every_k_breaks_the_slo_the_shortest_step_is_left() -> None:
    belief = a_belief({}, steps={0: 0.03, 1: 0.02, 2: 0.02, 3: 0.04, 5: 0.05})
    assert usable(belief, a_policy(inter_token_latency_limit=0.01)) == (1,)


def test_a_k_in_force_that_breaks_the_slo_gives_way_without_a_gain() -> None:
    belief = a_belief({1: 0.5}, steps={1: 0.05})
    assert chosen(SETTLED, belief, policy=a_policy(inter_token_latency_limit=0.02)) == 0


# Who takes over


def test_the_best_k_stays() -> None:
    assert chosen(SETTLED, a_belief({1: 0.2})) is None


def test_a_settled_k_gives_way_to_a_gain_beyond_min_gain() -> None:
    assert chosen(SETTLED, a_belief({3: POLICY.choice.min_gain})) is None
    assert chosen(SETTLED, a_belief({3: POLICY.choice.min_gain + 0.001})) == 3


def test_a_settled_k_gives_way_to_a_gain_beyond_its_error() -> None:
    assert chosen(SETTLED, a_belief({3: 0.2}, error=0.21)) is None
    assert chosen(SETTLED, a_belief({3: 0.2}, error=0.19)) == 3


def test_a_settled_k_that_seems_to_lose_gives_way_to_the_smallest_however_unsure() -> None:
    lost = POLICY.safety.safe_loss
    assert chosen(SETTLED, a_belief({0: lost + 0.001}, error=5.0)) == 0
    assert chosen(SETTLED, a_belief({0: lost - 0.001}, error=5.0)) is None
    assert chosen(SETTLED, a_belief({0: lost + 0.001, 2: 0.1}, error=5.0)) == 0
    assert chosen(SETTLED, a_belief({0: lost + 0.001}, error=5.0), measured=frozenset({1, 2})) is None


def test_a_restart_is_not_made_for_a_loss_that_is_not_sure() -> None:
    assert chosen(SETTLED, a_belief({0: 0.2}, error=5.0), policy=POLICY.relaunching()) is None


def test_a_k_that_is_not_settled_gives_way_to_half_the_error() -> None:
    assert chosen(OPEN, a_belief({3: 0.1}, error=0.21)) is None
    assert chosen(OPEN, a_belief({3: 0.1}, error=0.19)) == 3


def test_when_in_doubt_a_k_that_is_not_settled_gives_way_to_a_smaller_one() -> None:
    assert chosen(OPEN, a_belief({0: 0.001}, error=5.0)) == 0


def test_no_k_takes_over_that_was_never_measured() -> None:
    belief = a_belief({3: 0.5, 2: 0.1})
    assert chosen(SETTLED, belief, measured=frozenset({1, 2})) == 2
    assert chosen(SETTLED, belief, measured=frozenset({1})) is None


def test_where_only_restarts_change_the_table_an_unmeasured_k_may_take_over() -> None:
    policy = POLICY.relaunching()
    few = frozenset({1})
    assert chosen(SETTLED, a_belief({3: 0.2}, error=0.79), policy=policy, measured=few) == 3
    assert chosen(SETTLED, a_belief({3: 0.2}, error=0.81), policy=policy, measured=few) is None
    assert chosen(SETTLED, a_belief({3: 0.009}), policy=policy, measured=few) is None
    assert chosen(SETTLED, a_belief({3: 0.2}, error=0.79), policy=policy, measured=ALL) is None


def test_what_was_measured_anywhere_counts_as_measured() -> None:
    known = (
        ObservedCell(0, 3, None, 1.0, -3.0, 0.0, None, 0.0, 0.0),
        ObservedCell(4, 5, None, 1.0, -3.0, 5.0, None, 0.0, 0.0),
    )
    assert measured_ks(with_parts(a_start(), known=known)) == {3, 5}


# Going back


CHANGED = replace(SETTLED, k=3, replaced=1, changed_at=NOW - 10.0)


def test_a_new_k_that_is_slower_goes_back() -> None:
    assert reverted(CHANGED, a_belief({1: POLICY.choice.rollback_loss + 0.001}), POLICY, NOW) == 1
    assert reverted(CHANGED, a_belief({1: POLICY.choice.rollback_loss}), POLICY, NOW) is None


def test_a_new_k_goes_back_only_beyond_the_error() -> None:
    assert reverted(CHANGED, a_belief({1: 0.2}, error=0.21), POLICY, NOW) is None
    assert reverted(CHANGED, a_belief({1: 0.2}, error=0.19), POLICY, NOW) == 1


def test_only_a_fresh_and_settled_change_goes_back() -> None:
    slower = a_belief({1: 0.2})
    in_time = replace(CHANGED, changed_at=NOW - 2 * POLICY.choice.dwell_seconds)
    assert reverted(in_time, slower, POLICY, NOW) == 1
    assert reverted(in_time, slower, POLICY, NOW + 0.1) is None
    assert reverted(replace(CHANGED, settled_at=None), slower, POLICY, NOW) is None
    assert reverted(replace(CHANGED, replaced=None), slower, POLICY, NOW) is None
    assert reverted(replace(CHANGED, changed_at=None), slower, POLICY, NOW) is None


# The other bins


def with_known(*ks: int, **bins: BinState) -> TunerState:
    """K that were measured somewhere, and bins by their index after a letter."""
    known = tuple(ObservedCell(9, k, None, 1.0, -3.0, 0.0, None, 0.0, 0.0) for k in ks)
    return with_parts(a_start(3), known=known, bins={int(name[1:]): state for name, state in bins.items()})


def followed(state: TunerState, belief: Posterior, *, current: int = 0) -> BinState | None:
    """What becomes of bin 2."""
    reading = a_reading(current)
    context = TickContext(
        [], state, policy=POLICY, now=NOW, readings=reading, posteriors={0: belief, 2: belief}
    )
    return follow_other_bins(context).state.bins.get(2)


def test_the_bin_of_now_is_left_to_the_guardrails() -> None:
    state = with_known(*CANDIDATES, b2=SETTLED)
    assert followed(state, a_belief({3: 0.5}), current=2) == SETTLED


def test_a_bin_that_was_seen_before_changes_by_the_same_rule() -> None:
    after = followed(with_known(*CANDIDATES, b2=SETTLED), a_belief({3: 0.5}))
    assert after == SETTLED.changed_to(3, NOW, settled=True)
    still_open = followed(with_known(*CANDIDATES, b2=OPEN), a_belief({3: 0.5}))
    assert still_open == OPEN.changed_to(3, NOW, settled=False)


def test_a_bin_that_changed_a_moment_ago_rests() -> None:
    fresh = replace(SETTLED, changed_at=NOW - POLICY.choice.dwell_seconds + 0.1)
    assert followed(with_known(*CANDIDATES, b2=fresh), a_belief({3: 0.5})) == fresh
    rested = replace(SETTLED, changed_at=NOW - POLICY.choice.dwell_seconds)
    after = followed(with_known(*CANDIDATES, b2=rested), a_belief({3: 0.5}))
    assert after is not None
    assert after.k == 3


def test_an_unseen_bin_gets_the_safest_k_that_was_measured() -> None:
    after = followed(with_known(0, 1, 3), a_belief({1: 0.3, 5: 0.9}))
    assert after == BinState(1, decided=True)


def test_an_unseen_bin_keeps_the_static_table_without_a_clear_gain() -> None:
    assert followed(with_known(*CANDIDATES), a_belief({0: POLICY.choice.min_gain})) is None
    after = followed(with_known(*CANDIDATES), a_belief({0: POLICY.choice.min_gain + 0.001}))
    assert after == BinState(0, decided=True)


def test_a_larger_k_is_guessed_only_beyond_half_the_error_and_a_smaller_one_needs_none() -> None:
    larger, smaller = a_belief({1: 0.2, 3: 0.3}, error=0.17), a_belief({1: 0.3, 3: 0.2}, error=0.19)
    unsure = a_belief({1: 0.2, 3: 0.3}, error=0.19)
    from_1 = replace(with_known(*CANDIDATES), schedule=a_start(1).schedule)
    assert followed(from_1, larger) == BinState(3, decided=True)
    assert followed(from_1, unsure) is None
    assert followed(with_known(*CANDIDATES), smaller) == BinState(1, decided=True)


def test_where_nothing_was_measured_nothing_is_guessed() -> None:
    assert followed(with_known(), a_belief({0: 0.9})) is None


def test_a_guess_is_followed_by_a_better_one() -> None:
    guessed = BinState(0, decided=True)
    after = followed(with_known(*CANDIDATES, b2=guessed), a_belief({1: 0.3}))
    assert after == replace(guessed, k=1)
