"""Which (bin, K) a window speaks about."""

from __future__ import annotations

from outrider.tuning.observe.readings import read
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import POLICY, a_cell, a_window, an_exact_window

THREE = Schedule.constant(3)


def test_exact_cells_rule_over_the_sums_of_their_window() -> None:
    window = an_exact_window(a_cell(k=1), a_cell(k=5), batch=60.0, k=3.0)
    readings = read([window], THREE, POLICY)
    assert readings.exact
    assert [(r.bin, r.k) for r in readings.rows] == [(3, 1), (3, 5)]


def test_a_cell_without_tokens_says_nothing() -> None:
    assert read([an_exact_window(a_cell(goodput=0.0))], THREE, POLICY).rows == ()


def test_a_cell_of_a_k_that_is_no_candidate_says_nothing() -> None:
    assert read([an_exact_window(a_cell(k=4))], THREE, POLICY).rows == ()


def test_a_stock_window_speaks_about_the_k_of_the_table() -> None:
    (row,) = read([a_window(k=3.0)], THREE, POLICY).rows
    assert (row.bin, row.k, row.log_context) == (3, 3, None)
    assert row.batch_size == 8.0


def test_a_window_across_a_load_step_is_mixed() -> None:
    readings = read([a_window(batch=8.0, batch_low=1.0, batch_high=16.0)], THREE, POLICY)
    assert (readings.rows, readings.mixed) == ((), 1)


def test_a_window_with_other_drafts_than_the_table_says_is_mixed() -> None:
    assert read([a_window(k=5.0)], THREE, POLICY).mixed == 1
    assert read([a_window(k=1.0)], Schedule.constant(0), POLICY).mixed == 1


def test_the_bin_of_now_is_where_the_engines_spent_most_time() -> None:
    window = an_exact_window(a_cell(batch=2.0, seconds=1.0), a_cell(batch=8.0, seconds=3.0))
    assert read([window], THREE, POLICY).bin == POLICY.bin_of(8.0)
    assert read([], THREE, POLICY).bin is None
