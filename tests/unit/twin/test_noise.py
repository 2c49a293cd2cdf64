"""Noise: seeded, as large as it is said to be, and none where none is asked for."""

from __future__ import annotations

from itertools import pairwise
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider_twin.noise import MIN_FACTOR, Noise

MANY = 4000
ELAPSED = st.floats(0, 1e6)


@given(st.integers(0, 10**9), ELAPSED, st.integers(0, 9))
def test_without_noise_every_factor_is_one(step: int, elapsed: float, seed: int) -> None:
    assert Noise(seed=seed, pod="a").factor(step, elapsed) == 1.0


@given(st.integers(0, 10**6), ELAPSED)
def test_the_same_seed_and_pod_have_the_same_noise(step: int, elapsed: float) -> None:
    one, other = (Noise(white=0.1, drift=0.1, pods=0.1, seed=3, pod="a") for _ in range(2))
    assert one.factor(step, elapsed) == other.factor(step, elapsed)


@given(st.integers(0, 10**6), ELAPSED)
def test_no_step_is_faster_than_the_least(step: int, elapsed: float) -> None:
    assert Noise(white=1.0, drift=1.0, pods=1.0, seed=3).factor(step, elapsed) >= MIN_FACTOR


def test_white_noise_is_as_large_as_it_says() -> None:
    noise = Noise(white=0.03, seed=1)
    factors = [noise.factor(step, 0.0) for step in range(MANY)]
    assert stdev(factors) == pytest.approx(0.03, rel=0.1)
    assert mean(factors) == pytest.approx(1, abs=0.003)


def test_drift_is_slow_and_as_large_as_it_says() -> None:
    noise = Noise(drift=0.03, drift_seconds=60, seed=1)
    assert stdev(noise.factor(0, 60.0 * n) for n in range(MANY)) == pytest.approx(0.03, rel=0.1)
    steps = [noise.factor(0, second) for second in range(600)]
    assert max(abs(after - before) for before, after in pairwise(steps)) < 0.01


def test_each_pod_keeps_its_own_speed() -> None:
    pods = [Noise(pods=0.1, seed=1, pod=f"engine-{n}") for n in range(1000)]
    factors = [pod.factor(0, 0.0) for pod in pods]
    assert [pod.factor(77, 1234.0) for pod in pods] == factors
    assert stdev(factors) == pytest.approx(0.1, rel=0.15)
