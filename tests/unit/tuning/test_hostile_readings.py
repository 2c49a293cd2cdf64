"""Cells that an engine of ours would never count: the law neither fails nor grows by them."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from outrider.tuning.estimate.goodput import residuals
from outrider.tuning.estimate.surface import MAX_KNOWN
from outrider.tuning.observe.readings import read
from outrider.tuning.observe.window import Cell
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import CANDIDATES, POLICY, a_cell, a_start, an_exact_window


def odd_bins() -> list[Cell]:
    """Each batch size is a bin of its own, with every K."""
    one = {k: a_cell(k=k) for k in CANDIDATES}
    return [
        replace(one[k], low=low, context_tokens=2.0 ** (low % 50))
        for low in range(1, 100)
        for k in CANDIDATES
    ]


def test_cells_of_one_batch_bin_and_k_are_one_reading_however_the_engine_divides_its_batches() -> None:
    cells = [replace(a_cell(k=3), low=low) for low in (7, 8, 9)]
    (row,) = read([an_exact_window(*cells)], Schedule.constant(3), POLICY).rows
    assert row.steps == 3 * cells[0].steps
    assert row.step_seconds == pytest.approx(cells[0].step_seconds / cells[0].steps)
    assert row.accepted == tuple(3 * hits for hits in cells[0].accepted_per_position)


def test_there_are_no_more_readings_of_a_pod_than_bins_and_candidates() -> None:
    rows = read([an_exact_window(*odd_bins())], Schedule.constant(3), POLICY).rows
    assert len(rows) == len(POLICY.bins) * len(POLICY.candidates)


def test_what_is_remembered_stays_bounded_whatever_is_counted() -> None:
    state: TunerState = a_start()
    for tick in range(1, 12):
        cells = [replace(cell, context_tokens=cell.requests * 2.0**tick) for cell in odd_bins()]
        now = 5.0 * tick
        state = decide(TickContext([an_exact_window(*cells, at=now)], state, policy=POLICY, now=now)).state
        assert len(state.learning.known) <= MAX_KNOWN


def test_readings_of_a_thousand_pods_are_compared_without_a_square_of_them() -> None:
    windows = [an_exact_window(a_cell(), pod=f"default/{i}") for i in range(4000)]
    rows = read(windows, Schedule.constant(3), POLICY).rows
    tracemalloc.start()
    found = residuals(TickContext([], a_start(), policy=POLICY, now=5.0), rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == 4000
    assert peak < 4000**2  # bytes; the square has eight times as many


@pytest.mark.parametrize(
    "changes",
    [
        {"step_seconds": 1e-300},
        {"step_seconds": 2.0**53},
        {"steps": 1e-300, "step_seconds": 1e-302},
        {"requests": 1e-300},
        {"requests": 2.0**53},
    ],
    ids=range(5),
)
def test_steps_that_no_engine_can_take_are_left_out(changes: dict[str, Any]) -> None:
    cell = replace(a_cell(), **changes)
    assert read([an_exact_window(cell)], Schedule.constant(3), POLICY).rows == ()
