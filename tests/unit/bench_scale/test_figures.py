"""What the bench of many models computes from its measurements."""

from __future__ import annotations

import pytest

from tests.bench.scale.figures import exponent, quantile, ratios, table


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.5, 2.0), (0.75, 3.0), (0.99, 4.0), (1.0, 4.0)])
def test_a_quantile_is_a_measured_value(share: float, value: float) -> None:
    assert quantile([4.0, 2.0, 1.0, 3.0], share) == value


def test_there_is_no_quantile_of_nothing() -> None:
    assert quantile([], 0.5) is None


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5])
def test_the_exponent_is_the_power_of_growth(power: float) -> None:
    assert exponent({n: 3.0 * n**power for n in (10, 100, 1000)}) == pytest.approx(power)


def test_one_size_shows_no_growth() -> None:
    assert exponent({10: 1.0, 100: 0.0}) is None


def test_the_table_has_a_column_for_each_size() -> None:
    lines = table([{"models": 10, "cpu": 1.0, "gone": None}, {"models": 100, "cpu": 10.0, "gone": 5.0}])
    assert lines.splitlines() == [
        "| models | 10 | 100 | exponent |",
        "|---|---|---|---|",
        "| cpu | 1 | 10 | 1 |",
        "| gone | – | 5 | – |",
    ]


def test_a_slow_time_is_compared_with_the_mean_of_the_normal_times() -> None:
    found = {"steady: cores": 0.2, "slow pods: cores": 0.3, "afterwards: cores": 0.4}
    assert ratios(found, "slow pods", ("steady", "afterwards")) == {"cores": pytest.approx(1.0)}


def test_a_figure_without_a_normal_value_has_no_ratio() -> None:
    found = {
        "steady: a": 0.0,
        "slow pods: a": 1.0,
        "steady: b": None,
        "slow pods: b": 1.0,
        "slow pods: c": 2.0,
    }
    assert ratios(found, "slow pods", ("steady",)) == {}
