from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.engine.bootstrap import clairvoyant, policy_draws, resampled
from tests.bench.engine.figures import Interval
from tests.unit.bench_engine.factories import rates


@pytest.fixture
def generator() -> np.random.Generator:
    return np.random.default_rng(1)


def test_the_clairvoyant_holds_the_best_table(generator: np.random.Generator) -> None:
    found = clairvoyant({"0": rates(100, 100, 100, 100), "3": rates(140, 150, 160, 150)}, generator)
    assert found is not None
    assert found.choices == ("3", "3")
    assert found.value == 150.0


def test_a_lucky_slice_does_not_raise_the_clairvoyant(generator: np.random.Generator) -> None:
    """Equal tables with one lucky slice each: the best mean is 110, what a choice gains is nothing."""
    found = clairvoyant({"0": rates(120, 100, 100, 100), "3": rates(100, 120, 100, 100)}, generator)
    assert found is not None
    assert found.choices == ("0", "3")
    assert found.value == 100.0


@given(st.lists(st.lists(st.floats(50, 150), min_size=4, max_size=4), min_size=2, max_size=5))
def test_the_clairvoyant_never_beats_the_best_of_both_halves(values: list[list[float]]) -> None:
    arms = {str(arm): rates(*own) for arm, own in enumerate(values)}
    found = clairvoyant(arms, np.random.default_rng(0))
    assert found is not None
    best_even = max((own[0] + own[2]) / 2 for own in values)
    best_odd = max((own[1] + own[3]) / 2 for own in values)
    assert found.value <= (best_even + best_odd) / 2 + 1e-9


def test_a_table_that_one_half_lacks_might_be_the_best(generator: np.random.Generator) -> None:
    assert clairvoyant({"0": rates(100, 100), "3": rates(150)}, generator) is None


def test_the_interval_of_a_noisy_mean_is_that_of_theory(generator: np.random.Generator) -> None:
    values = generator.normal(100, 10, size=100)
    found = Interval.of(float(values.mean()), resampled(rates(*values), generator))
    error = 1.96 * values.std(ddof=1) / 10
    assert found.low == pytest.approx(values.mean() - error, abs=0.5)
    assert found.high == pytest.approx(values.mean() + error, abs=0.5)


def test_runs_that_differ_widen_the_interval(generator: np.random.Generator) -> None:
    alike = policy_draws([[rates(100, 100)], [rates(100, 100)]], generator)
    apart = policy_draws([[rates(90, 90)], [rates(110, 110)]], generator)
    assert set(alike[0]) == {100.0}
    assert set(apart[0]) == {90.0, 100.0, 110.0}


def test_a_run_is_drawn_for_all_phases_at_once(generator: np.random.Generator) -> None:
    first, second = policy_draws(
        [[rates(90, 90), rates(190, 190)], [rates(110, 110), rates(210, 210)]], generator
    )
    assert set(second - first) == {100.0}


def test_what_was_measured_once_is_not_taken_for_certain(generator: np.random.Generator) -> None:
    once = Interval.of(100.0, resampled(rates(100), generator))
    assert (once.low, once.high) == pytest.approx((90.7, 110.3), abs=1.5)
    best = clairvoyant({"0": rates(100, 100), "3": rates(150, 150)}, generator)
    assert best is not None
    assert best.draws.std() / 150 == pytest.approx(0.05 / np.sqrt(2), rel=0.1)
