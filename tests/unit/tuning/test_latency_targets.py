"""Latency targets against histograms, and what they change in the tuner."""

from __future__ import annotations

from dataclasses import replace
from math import inf, log

import numpy as np
import pytest

from outrider.api.reasons import DecisionReason
from outrider.tuning import messages
from outrider.tuning.choose.choice import challenger, usable
from outrider.tuning.estimate.latency_percentile import LatencyPercentile
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.latency_targets import RECENT_SECONDS, LatencyTarget, RecentLatencies, judged
from outrider.tuning.observe.latencies import Latencies
from outrider.tuning.state import BinState
from tests.unit.tuning.factories import (
    Engine,
    a_map,
    a_policy,
    a_start,
    a_window,
    run,
    true_step,
    with_parts,
)

EDGES = (0.01, 0.025, 0.05)
P90 = LatencyTarget(90, 0.05)


def of(*counts: float) -> Latencies:
    return Latencies(EDGES, counts)


def test_a_target_is_kept_if_enough_latencies_are_below_an_edge_within_the_limit() -> None:
    found = judged(of(0, 95, 3, 2), P90)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.01, 0.025))
    assert (found.count, found.kept) == (100, True)


def test_a_target_is_broken_if_too_many_latencies_are_above_an_edge_beyond_the_limit() -> None:
    found = judged(of(0, 80, 5, 15), P90)
    assert found is not None
    assert found.low == pytest.approx(0.05)
    assert (found.high, found.kept) == (inf, False)


def test_a_limit_in_the_bucket_of_the_percentile_is_not_decided() -> None:
    found = judged(of(0, 50, 50, 0), LatencyTarget(90, 0.04))
    assert found is not None
    assert found.kept is None
    assert found.count == 100


def test_a_limit_in_another_bucket_than_the_percentile_is_decided() -> None:
    found = judged(of(0, 95, 5, 0), LatencyTarget(90, 0.04))
    assert found is not None
    assert found.kept is True


@pytest.mark.parametrize(("percentile", "least"), [(50, 4), (90, 20), (99, 200)])
def test_a_percentile_needs_two_latencies_beyond_it(percentile: int, least: int) -> None:
    target = LatencyTarget(percentile, 0.05)
    few, enough = judged(of(0, least - 1, 0, 0), target), judged(of(0, least, 0, 0), target)
    assert few is not None
    assert enough is not None
    assert (few.kept, few.count) == (None, 0)
    assert enough.kept is True


def test_without_a_histogram_nothing_is_judged() -> None:
    assert judged(None, P90) is None


def test_recent_latencies_are_those_of_two_minutes_over_all_pods() -> None:
    window = replace(a_window(), latencies=of(0, 5, 0, 0), first_token_latencies=of(1, 0, 0, 0))
    recent = RecentLatencies().after([window, window], 0.0).after([window], 60.0)
    assert recent.inter_token == of(0, 15, 0, 0)
    assert recent.first_token == of(3, 0, 0, 0)
    assert recent.after([], RECENT_SECONDS).inter_token == of(0, 5, 0, 0)
    assert recent.after([], 61.0 + RECENT_SECONDS).inter_token is None


def test_a_tick_without_measurements_keeps_the_recent_ones() -> None:
    window = replace(a_window(), latencies=of(0, 5, 0, 0))
    assert RecentLatencies().after([window], 0.0).after([], 10.0).inter_token == of(0, 5, 0, 0)


# The tuner


def a_belief(*step_seconds: float, tokens: tuple[float, ...], pause_weight: float = 0.0) -> Posterior:
    """One request, with exact estimates of K = 0, 1, ..."""
    steps = np.log(np.array(step_seconds))
    goodput = np.log(np.array(tokens)) - steps
    size = len(step_seconds)
    return Posterior(tuple(range(size)), 1.0, goodput, np.eye(size) * 1e-8, steps, pause_weight=pause_weight)


def test_a_higher_percentile_allows_less_before_a_histogram_is_read() -> None:
    safety = a_policy(inter_token_latency_limit=0.05).safety
    p50, p90, p99 = (
        LatencyPercentile.prior(replace(safety, inter_token_latency_quantile=q)) for q in (0.5, 0.9, 0.99)
    )
    at = [prior.percentile(log(0.04), 0.0, 1.0)[0] for prior in (p50, p90, p99)]
    assert at[0] == pytest.approx(log(0.04), abs=1e-6)
    assert at == sorted(at)
    assert p90.keeps(0.045, log(0.04), 0.0, 1.0) > p99.keeps(0.045, log(0.04), 0.0, 1.0)


def test_goodput_prefers_the_k_of_most_tokens_per_second() -> None:
    belief = a_belief(0.020, 0.035, tokens=(1.0, 1.9))
    assert belief.best((0, 1)) == 1
    assert belief.gain(1, 0)[0] == belief.goodput_gain(1, 0)[0] > 0


def test_latency_wants_more_goodput_for_longer_pauses() -> None:
    belief = a_belief(0.020, 0.035, tokens=(1.0, 1.9), pause_weight=0.25)
    assert belief.goodput_gain(1, 0)[0] == pytest.approx(log(1.9 / 1.75))
    assert belief.gain(1, 0)[0] == pytest.approx(log(1.9 / 1.75) - 0.25 * log(1.75))
    assert belief.best((0, 1)) == 0


def test_latency_drafts_where_drafts_gain_enough() -> None:
    belief = a_belief(0.020, 0.025, tokens=(1.0, 1.8), pause_weight=0.25)
    assert belief.best((0, 1)) == 1


def test_latency_replaces_a_settled_k_of_more_goodput() -> None:
    belief = a_belief(0.020, 0.035, tokens=(1.0, 1.9), pause_weight=0.25)
    settled = BinState(1, decided=True, visited=True, settled_at=0.0)
    policy = replace(a_policy(pause_weight=0.25), candidates=(0, 1))
    assert challenger(settled, belief, frozenset({0, 1}), policy) == 0


def test_the_objective_does_not_replace_the_target() -> None:
    belief = a_belief(0.020, 0.035, tokens=(1.0, 3.0), pause_weight=0.25)
    policy = replace(a_policy(inter_token_latency_limit=0.025, pause_weight=0.25), candidates=(0, 1))
    assert belief.best((0, 1)) == 1
    assert usable(belief, policy) == (0,)


def test_targets_are_no_part_of_what_measurements_depend_on() -> None:
    plain = a_policy()
    wanted = plain.changed(
        inter_token_latency_limit=0.05, inter_token_latency_quantile=0.99, pause_weight=0.25
    )
    assert wanted != plain
    assert wanted.without_targets() == plain.without_targets()


TIGHT = a_policy(inter_token_latency_limit=1.25 * true_step(1.0, 1), ledger_seconds=60.0)
"""A limit that K=1 keeps and K=5 breaks, at a batch of 1. K=5 has the most goodput there."""


def test_a_static_schedule_that_breaks_the_limit_is_no_fallback() -> None:
    found = run(a_start(5, TIGHT), Engine(1.0), ticks=60, policy=TIGHT, step_times=a_map())
    assert DecisionReason.STATIC_FALLBACK not in {decision.reason for decision in found}
    last = found[-1].num_speculative_tokens
    assert last is not None
    assert last <= 1


def test_a_fallback_ends_at_once_where_the_static_schedule_breaks_the_limit() -> None:
    state = run(a_start(5, TIGHT), Engine(1.0), ticks=12, policy=TIGHT, step_times=a_map())[-1].state
    decision = run(with_parts(state, until=9e9), Engine(1.0), ticks=1, at=60.0, policy=TIGHT)[0]
    assert decision.reason is DecisionReason.STATIC_FALLBACK_ENDED
    assert "the static schedule breaks the latency limit" in decision.sentence


def test_an_engine_may_not_choose_a_k_that_breaks_the_limit_at_any_batch_size() -> None:
    decision = run(a_start(5, TIGHT), Engine(1.0), ticks=12, policy=TIGHT, step_times=a_map())[-1]
    model = decision.cost_model()
    assert model is not None
    assert model.limits.k_at(1) == 1
    assert model.limits.k_at(64) == 0


def test_the_outlook_says_up_to_which_batch_size_a_k_keeps_the_limit() -> None:
    limit = 1.4 * true_step(8.0, 0)
    policy = a_policy(inter_token_latency_limit=limit)
    found = run(a_start(0, policy), Engine(32.0), ticks=6, policy=policy, step_times=a_map())[-1].outlook
    assert found is not None
    assert found.latency is not None
    assert found.latency.keeping == ()
    assert true_step(32.0, 0) > limit
    assert 6.0 <= found.latency.largest_batch < 32.0
    assert found.latency.alone < limit


def test_a_change_for_shorter_pauses_names_them() -> None:
    belief = a_belief(0.020, 0.035, tokens=(1.0, 1.9))
    belief = replace(belief, pause_weight=0.25)
    policy = replace(a_policy(pause_weight=0.25), candidates=(0, 1))
    assert messages.change(belief, 1, 0, policy) == (
        "K 1 -> 0, 50 vs 54 tok/s (-8 % ± 0 %), pauses 35 -> 20 ms"
    )
