"""What the law remembers, one part at a time."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import pytest

from outrider.tuning.state import (
    BinState,
    Drift,
    Learning,
    Ledger,
    Pace,
    ProbeBudget,
    ProbeCost,
    StaticFallback,
)
from tests.unit.tuning.factories import POLICY


def booked(ledger: Ledger, gain: float, *, drafting: float = 0.0, seconds: float = 5.0) -> Ledger:
    return ledger.after(gain, drafting=(drafting, drafting / 5), seconds=seconds, safety=POLICY.safety)


# The ledger


def test_a_ledger_forgets_with_its_time_constant() -> None:
    before = Ledger(gain=-0.05, drafting=0.8, weight=1.0)
    later = booked(before, 0.0, seconds=POLICY.safety.ledger_seconds)
    assert (later.gain, later.drafting) == pytest.approx((-0.05 / exp(1), 0.8 / exp(1)))
    assert later.weight == pytest.approx(1.0)


def test_a_fresh_ledger_weighs_what_it_has_seen_of_its_time() -> None:
    seen = booked(Ledger(), 0.1, drafting=1.0, seconds=POLICY.safety.ledger_seconds)
    share = 1 - exp(-1)
    assert (seen.gain, seen.drafting, seen.weight) == pytest.approx((0.1 * share, share, share))
    assert seen.drafting_error == pytest.approx(share / 5)


def test_a_ledger_of_many_ticks_is_that_of_one_long_tick() -> None:
    ticks = Ledger()
    for _ in range(12):
        ticks = booked(ticks, 0.1, drafting=0.5, seconds=5.0)
    once = booked(Ledger(), 0.1, drafting=0.5, seconds=60.0)
    assert (ticks.gain, ticks.weight) == pytest.approx((once.gain, once.weight))
    assert (ticks.drafting, ticks.drafting_error) == pytest.approx((once.drafting, once.drafting_error))


# Recent probes


def test_probes_of_one_k_in_one_bin_add_up_and_are_forgotten_with_their_time_constant() -> None:
    budget = ProbeBudget()
    for k, seconds in ((1, 1.0), (2, 0.5), (1, 1.0)):
        budget = budget.with_probe(ProbeCost(3, k, seconds, loss=seconds / 2))
    assert {(each.bin, each.k, each.seconds, each.loss) for each in budget.probes} == {
        (3, 1, 2.0, 1.0),
        (3, 2, 0.5, 0.25),
    }
    later = budget.after(60.0, loss_seconds=60.0)
    assert later.loss == pytest.approx(1.25 / exp(1))
    assert {each.k: each.seconds for each in later.probes} == pytest.approx({1: 2 / exp(1), 2: 0.5 / exp(1)})
    assert later.after(600.0, loss_seconds=60.0).probes == ()


# Differences between pods


def test_pods_differ_as_assumed_until_several_were_measured() -> None:
    prior = POLICY.estimation.pod_deviation
    assert Learning().pod_variance(POLICY.estimation) == pytest.approx(prior**2)
    alike = Learning(pods={f"pod-{n}": Pace(0.0) for n in range(8)})
    assert alike.pod_variance(POLICY.estimation) == pytest.approx(prior**2 * 4 / 11)
    apart = Learning(pods={"a": Pace(-0.1), "b": Pace(0.1)})
    assert apart.pod_variance(POLICY.estimation) == pytest.approx((0.02 + 4 * prior**2) / 5)


# Changes of K


def test_changes_of_an_hour_ago_hardly_count() -> None:
    state = BinState(3, changed_at=0.0, switches=6.0)
    assert state.recent_switches(0.0) == 6.0
    assert state.recent_switches(3600.0) == pytest.approx(6.0 / exp(1))
    assert BinState(3, switches=6.0).recent_switches(0.0) == 0.0


def test_a_change_is_counted_and_the_k_before_is_kept_to_go_back_to() -> None:
    before = BinState(3, decided=False, settled_at=10.0, changed_at=0.0, switches=2.0)
    after = before.changed_to(1, 3600.0, settled=True)
    assert (after.k, after.decided, after.replaced) == (1, True, 3)
    assert (after.changed_at, after.settled_at) == (3600.0, 3600.0)
    assert after.switches == pytest.approx(2.0 / exp(1) + 1.0)
    assert before.changed_to(1, 3600.0, settled=False).settled_at is None


def test_a_k_that_is_to_be_chosen_anew_gets_time_for_it_and_no_way_back() -> None:
    state = BinState(3, settled_at=10.0, credit=4.0, replaced=1)
    assert state.unsettled(15.0) == replace(state, settled_at=None, credit=15.0, replaced=None)
    assert state.unsettled(2.0).credit == 4.0


# Drift


def test_residuals_within_the_slack_are_no_drift() -> None:
    drift = Drift()
    for _ in range(1000):
        drift = drift.after(POLICY.estimation.drift_slack, POLICY.estimation)
    assert drift == Drift()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_mean_that_moved_is_found_once_it_adds_up_beyond_the_threshold(sign: float) -> None:
    step = POLICY.estimation.drift_slack + POLICY.estimation.drift_threshold / 3
    drift, found = Drift(), []
    for _ in range(4):
        drift = drift.after(sign * step, POLICY.estimation)
        found.append(drift.found(POLICY.estimation))
    assert found == [False, False, False, True]


# Pace


def test_pace_follows_measurements_and_grows_surer() -> None:
    pace, variances = Pace(), [Pace().variance]
    for _ in range(20):
        pace = pace.after(0.3, 0.01)
        variances.append(pace.variance)
    assert pace.mean == pytest.approx(0.3, abs=0.005)
    assert variances == sorted(variances, reverse=True)


def test_a_measurement_as_good_as_what_is_known_counts_half() -> None:
    after = Pace(mean=0.1, variance=0.04 - 1e-5).after(0.3, 0.04)
    assert (after.mean, after.variance) == pytest.approx((0.2, 0.02))


# The static fallback


def test_the_static_table_holds_until_its_time_is_over() -> None:
    fallback = StaticFallback(until=100.0)
    assert [fallback.seconds_left(now) for now in (40.0, 100.0, 160.0)] == [60.0, 0.0, 0.0]
    assert StaticFallback().seconds_left(0.0) == 0.0


# Noise


def test_noise_grows_with_surprising_readings_and_falls_with_dull_ones() -> None:
    learning = Learning()
    assert learning.noise(POLICY.estimation) == POLICY.estimation.noise
    assert (
        learning.with_residual(9.0).noise(POLICY.estimation)
        > POLICY.estimation.noise
        > learning.with_residual(0.01).noise(POLICY.estimation)
    )
    assert learning.noisier().noise(POLICY.estimation) == pytest.approx(POLICY.estimation.noise * exp(0.2))


def test_noise_stays_within_limits_whatever_is_read() -> None:
    loud = quiet = Learning()
    for _ in range(2000):
        loud, quiet = loud.with_residual(1e9), quiet.with_residual(0.0)
    assert (loud.log_noise, quiet.log_noise) == (1.4, -0.7)


def test_readings_of_the_expected_spread_leave_the_noise_where_it_is() -> None:
    """The mean of log z^2 of a normal distribution is -1.27."""
    assert Learning().with_residual(exp(-1.27)).log_noise == pytest.approx(0.0)
