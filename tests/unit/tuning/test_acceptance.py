"""Acceptance per position, and the tokens per step that follow from it."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.tuning.estimate.acceptance import Profile
from outrider.tuning.observe.readings import Reading, read
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import CANDIDATES, POLICY, a_cell, an_exact_window


def readings(*, k: int, acceptance: float, seconds: float = 10.0) -> tuple[Reading, ...]:
    window = an_exact_window(a_cell(k=k, acceptance=acceptance, seconds=seconds))
    return read([window], Schedule.constant(k), POLICY).rows


def learnt(*, k: int = 5, acceptance: float = 0.8, ticks: int = 3) -> Profile:
    profile = Profile()
    for _ in range(ticks):
        profile = profile.after(readings(k=k, acceptance=acceptance), 10.0, POLICY.estimation)
    return profile


def test_tokens_per_step_follow_the_rates_of_the_positions() -> None:
    means = learnt(acceptance=0.8).tokens(CANDIDATES).log_mean
    expected = [1 + sum(0.8**j for j in range(1, k + 1)) for k in CANDIDATES]
    assert [exp(m) for m in means] == pytest.approx(expected, rel=0.01)


def test_k_0_gains_exactly_one_token() -> None:
    tokens = Profile().tokens(CANDIDATES)
    assert tokens.log_mean[0] == 0.0
    assert tokens.covariance[0, 0] == 0.0


def test_positions_that_were_never_drafted_are_unsure() -> None:
    covariance = learnt(k=1).tokens(CANDIDATES).covariance
    assert covariance[-1, -1] > 20 * covariance[1, 1]


def test_a_draft_that_stops_at_the_first_position_does_not_count_for_the_second() -> None:
    """Conditional rates: half of the drafts accept one token, and all of those the second one."""
    row = readings(k=2, acceptance=0.5)[0]
    profile = Profile().after([row], 1.0, POLICY.estimation)
    assert profile.tried[1] == pytest.approx(profile.accepted[0])


def test_without_drafts_rates_stay_and_count_half_after_a_half_life() -> None:
    profile, estimation = learnt(), POLICY.estimation
    later = profile.after(readings(k=0, acceptance=0.5), estimation.undrafted_half_life_seconds, estimation)
    assert later.tried == tuple(count / 2 for count in profile.tried)
    assert later.accepted == tuple(count / 2 for count in profile.accepted)


def test_other_text_is_noticed_in_one_tick() -> None:
    profile = learnt(acceptance=0.9).after(readings(k=5, acceptance=0.4), 10.0, POLICY.estimation)
    assert profile.shifted
    means = profile.tokens((1,)).log_mean
    assert means[0] == pytest.approx(log(1.4), abs=0.02)


def test_other_text_lowers_the_guess_of_deeper_positions_too() -> None:
    before = learnt(k=5, acceptance=0.9)
    after = before.after(readings(k=1, acceptance=0.45), 10.0, POLICY.estimation)
    assert after.rates(3)[0][2] < before.rates(3)[0][2] - 0.2


def test_positions_that_nobody_drafts_follow_the_first_without_any_shift() -> None:
    profile = learnt(k=5, acceptance=0.9)
    before = profile.rates(5)[0][4]
    for acceptance in (0.86, 0.82, 0.78, 0.74, 0.7, 0.66, 0.62, 0.58):
        profile = profile.after(readings(k=1, acceptance=acceptance), 20.0, POLICY.estimation)
        assert not profile.shifted
    assert profile.rates(5)[0][4] < before - 0.15


def test_text_that_is_harder_at_first_is_as_much_harder_further_on() -> None:
    """Acceptance of 0.9 that fell to 0.9 squared at the first position: 0.8 falls to 0.8 squared."""
    text = Profile(tried=(1000.0, 900.0), accepted=(900.0, 720.0))
    harder = text.after(readings(k=1, acceptance=0.81), 1000.0, POLICY.estimation)
    assert harder.accepted[1] / harder.tried[1] == pytest.approx(0.64, abs=0.01)


def test_one_slice_tells_the_acceptance_of_every_position_that_it_drafts() -> None:
    tokens = learnt(k=1).tokens(CANDIDATES)
    told = tokens.after(tokens.learnt([3], np.array([[500.0]]))[0, 0]).covariance
    unsure = tokens.covariance
    known, unknown = CANDIDATES.index(3), CANDIDATES.index(5)
    assert told[known, known] < 0.1 * unsure[known, known]
    assert told[unknown, unknown] > 5 * told[known, known]


def test_the_same_text_is_no_shift() -> None:
    profile = learnt(acceptance=0.7)
    assert not profile.after(readings(k=5, acceptance=0.72), 10.0, POLICY.estimation).shifted


@given(st.lists(st.tuples(st.sampled_from((1, 2, 3, 5)), st.floats(0, 1)), min_size=1, max_size=8))
def test_more_draft_tokens_never_mean_fewer_tokens_per_step(history: list[tuple[int, float]]) -> None:
    profile = Profile()
    for k, acceptance in history:
        profile = profile.after(readings(k=k, acceptance=acceptance), 5.0, POLICY.estimation)
    means = profile.tokens(CANDIDATES).log_mean
    assert all(a <= b + 1e-12 for a, b in pairwise(means))
