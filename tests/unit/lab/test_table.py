"""What a throughput table says between, at and beyond its rows."""

from __future__ import annotations

from math import exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.performance.tables_file import read_tables
from tests.unit.lab.factories import VISIBLE, a_table

TABLES = read_tables(VISIBLE)


@pytest.mark.parametrize("name", TABLES)
def test_at_its_rows_a_table_gives_its_own_figures(name: str) -> None:
    table = TABLES[name]
    for batch, row in zip(table.batch_sizes, table.rows, strict=True):
        for k, goodput in zip(table.candidates, row, strict=True):
            assert table.goodput(batch, k) == pytest.approx(goodput)


def test_half_way_between_two_rows_on_the_log_scale_is_the_geometric_mean() -> None:
    table = a_table(rows=((50, 90), (200, 360)), batch_sizes=(4, 16))
    assert table.goodput(8, 0) == pytest.approx((50 * 200) ** 0.5)


@given(batch=st.floats(33, 500))
def test_beyond_the_last_row_the_level_follows_the_mean_slope_of_the_last_two(batch: float) -> None:
    slope = (log(600 / 300) + log(500 / 360)) / 2 / log(32 / 8)
    assert a_table().goodput(batch, 0) == pytest.approx(600 * exp(slope * log(batch / 32)))


def test_goodput_never_falls_below_the_first_row_faster_than_the_batch() -> None:
    table = a_table(rows=((100, 100), (1000, 1000)), batch_sizes=(4, 8))
    assert table.goodput(1, 0) == pytest.approx(25)


def test_without_a_launch_without_drafter_k_0_stands_for_it() -> None:
    assert a_table().no_speculation(8) == 300
    assert a_table(unspeculated=(60.0, 330.0, 700.0)).no_speculation(8) == pytest.approx(330)


def test_measured_acceptance_adds_up_to_the_accepted_tokens() -> None:
    table = TABLES["gemma31b_batch11_4k"]
    for k, accepted in ((1, 0.82), (3, 1.78), (5, 2.13), (7, 2.19)):
        assert sum(table.survival(11, k)) == pytest.approx(accepted)
