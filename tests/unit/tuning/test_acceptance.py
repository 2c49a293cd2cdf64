"""Acceptance per position, and the tokens per step that follow from it."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api.schedule import Schedule
from outrider.tuning.estimate.acceptance import Profile
from outrider.tuning.observe.readings import Reading, read
from tests.unit.tuning.factories import CANDIDATES, a_cell, a_policy, an_exact_window

POLICY = a_policy()


def readings(*, k: int, acceptance: float, seconds: float = 10.0) -> tuple[Reading, ...]:
    window = an_exact_window(a_cell(k=k, acceptance=acceptance, seconds=seconds))
    return read([window], Schedule.constant(k), POLICY).rows


def learnt(*, k: int = 5, acceptance: float = 0.8, ticks: int = 3) -> Profile:
    profile = Profile()
    for _ in range(ticks):
        profile = profile.after(readings(k=k, acceptance=acceptance), 10.0, POLICY.estimation)
    return profile


def test_tokens_per_step_follow_the_rates_of_the_positions() -> None:
    means, _ = learnt(acceptance=0.8).tokens_per_step(CANDIDATES)
    expected = [1 + sum(0.8**j for j in range(1, k + 1)) for k in CANDIDATES]
    assert [exp(m) for m in means] == pytest.approx(expected, rel=0.01)


def test_k_0_gains_exactly_one_token() -> None:
    means, covariance = Profile().tokens_per_step(CANDIDATES)
    assert means[0] == 0.0
    assert covariance[0, 0] == 0.0


def test_positions_that_were_never_drafted_are_unsure() -> None:
    _, covariance = learnt(k=1).tokens_per_step(CANDIDATES)
    assert covariance[-1, -1] > 20 * covariance[1, 1]


def test_a_draft_that_stops_at_the_first_position_does_not_count_for_the_second() -> None:
    """Conditional rates: half of the drafts accept one token, and all of those the second one."""
    row = readings(k=2, acceptance=0.5)[0]
    profile = Profile().after([row], 1.0, POLICY.estimation)
    assert profile.tried[1] == pytest.approx(profile.accepted[0])


def test_without_drafts_nothing_is_forgotten() -> None:
    profile = learnt()
    assert profile.after(readings(k=0, acceptance=0.5), 600.0, POLICY.estimation).tried == profile.tried


def test_other_text_is_noticed_in_one_tick() -> None:
    profile = learnt(acceptance=0.9).after(readings(k=5, acceptance=0.4), 10.0, POLICY.estimation)
    assert profile.shifted
    means, _ = profile.tokens_per_step((1,))
    assert means[0] == pytest.approx(log(1.4), abs=0.02)


def test_other_text_lowers_the_guess_of_deeper_positions_too() -> None:
    before = learnt(k=5, acceptance=0.9)
    after = before.after(readings(k=1, acceptance=0.45), 10.0, POLICY.estimation)
    assert after.rates(3)[0][2] < before.rates(3)[0][2] - 0.2


def test_the_same_text_is_no_shift() -> None:
    profile = learnt(acceptance=0.7)
    assert not profile.after(readings(k=5, acceptance=0.72), 10.0, POLICY.estimation).shifted


@given(st.lists(st.tuples(st.sampled_from((1, 2, 3, 5)), st.floats(0, 1)), min_size=1, max_size=8))
def test_more_draft_tokens_never_mean_fewer_tokens_per_step(history: list[tuple[int, float]]) -> None:
    profile = Profile()
    for k, acceptance in history:
        profile = profile.after(readings(k=k, acceptance=acceptance), 5.0, POLICY.estimation)
    means, _ = profile.tokens_per_step(CANDIDATES)
    assert all(a <= b + 1e-12 for a, b in pairwise(means))
