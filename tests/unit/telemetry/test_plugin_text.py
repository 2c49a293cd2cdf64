"""The operator reads what the engine plugin writes: names, labels, bins. Neither imports the other."""

from __future__ import annotations

from outrider.runtimes.metrics import MIXED, PER_POSITION, PLUGIN_CELLS, PLUGIN_EPOCH, CellCounter, CellSeries
from outrider.runtimes.vllm import metrics as names
from outrider.runtimes.vllm.metrics import DIALECT
from outrider.telemetry.page import Misread, read_text
from outrider.telemetry.series import SeriesKey, pod_series
from outrider.telemetry.windows import build_window
from outrider.tuning.observe.window import Cell, Window
from outrider.tuning.policy import Policy
from outrider_engine.control.state import Measurement, unmeasured
from outrider_engine.counting.measure import CellSums
from outrider_engine.http import exposition
from outrider_protocol.bins import batch_bins
from tests.unit.telemetry.factories import POD, Counters, cell_sums
from tests.unit.telemetry.factories import exposition as stock_text

STEPS = PLUGIN_CELLS[CellCounter.STEPS]
TRIMMED = PLUGIN_CELLS[CellCounter.TRIMMED]


def plugin_text(*cells: CellSums) -> str:
    measurement: Measurement = {**unmeasured("not asked"), "cells": list(cells)}
    return exposition.render([measurement], model_name="tiny").decode()


def read(text: str) -> dict[SeriesKey, float]:
    values = {}
    for found in read_text(text, {}).values():
        assert not isinstance(found, Misread), found
        if found is not None:
            values[found.key] = found.value
    return values


def test_every_counter_of_a_cell_is_read_under_the_name_that_the_plugin_writes() -> None:
    by_labels = {
        labels: {f"outrider:{family.name}_total" for family in exposition.FAMILIES if family.labels == labels}
        for labels in (("batch", "k"), ("batch", "k", "position"))
    }
    positions = {names.DIALECT.cells[counter] for counter in PER_POSITION}
    assert list(by_labels.values()) == [set(names.DIALECT.cells.values()) - positions, positions]
    assert exposition.MIXED == MIXED


def test_the_plugin_shows_itself_before_its_first_step() -> None:
    assert read(plugin_text()) == {PLUGIN_EPOCH: 0.0}


def test_what_the_plugin_counted_becomes_a_cell() -> None:
    stock = Counters()
    after = stock.ran(steps=100, batch=8, k=3, accepted=1.5)
    scrapes = (
        (1.0, read(stock_text(stock).decode() + plugin_text())),
        (2.0, read(stock_text(after).decode() + plugin_text(cell_sums(), cell_sums(k=None, steps=1)))),
    )
    rows = ((key, {at: values[key] for at, values in scrapes if key in values}) for key in scrapes[1][1])
    found = build_window(POD, pod_series(rows), dialect=DIALECT, since=0, until=3, max_age_seconds=5)
    assert isinstance(found, Window), found
    assert found.cells == (
        Cell(
            low=7,
            num_speculative_tokens=3,
            steps=100,
            step_seconds=2.0,
            requests=800,
            emitted_tokens=2000,
            drafted_per_position=(800, 800, 800),
            accepted_per_position=(400, 400, 400),
            prefill_tokens=50,
            context_tokens=400_000,
            trimmed_per_position=(0, 0, 0),
        ),
    )


def test_trimmed_drafts_were_drafted_and_not_verified() -> None:
    """The engine's own counter has them, too, so both agree."""
    stock = Counters()
    after = stock.ran(steps=100, batch=8, k=3, accepted=1.5)
    scrapes = (
        (1.0, read(stock_text(stock).decode() + plugin_text())),
        (2.0, read(stock_text(after).decode() + plugin_text(cell_sums(trimmed=300)))),
    )
    rows = ((key, {at: values[key] for at, values in scrapes if key in values}) for key in scrapes[1][1])
    found = build_window(POD, pod_series(rows), dialect=DIALECT, since=0, until=3, max_age_seconds=5)
    assert isinstance(found, Window), found
    (cell,) = found.cells
    assert (cell.drafted_per_position, cell.verified_per_position) == ((800,) * 3, (500,) * 3)
    assert (found.draft_tokens, found.verified_tokens) == (2400, 1500)


def test_drafts_of_limited_requests_are_among_vllms_and_not_among_those_of_the_cell() -> None:
    stock = Counters()
    after = stock.ran(steps=100, batch=8, k=3, accepted=1.5)
    # Two of eight requests verify one draft token in place of three.
    after.values[names.DRAFT_TOKENS] -= 400
    for counter in (names.ACCEPTED_TOKENS, names.GENERATED_TOKENS):
        after.values[counter] -= 200
    scrapes = (
        (1.0, read(stock_text(stock).decode() + plugin_text())),
        (2.0, read(stock_text(after).decode() + plugin_text(cell_sums(limited=2)))),
    )
    rows = ((key, {at: values[key] for at, values in scrapes if key in values}) for key in scrapes[1][1])
    found = build_window(POD, pod_series(rows), dialect=DIALECT, since=0, until=3, max_age_seconds=5)
    assert isinstance(found, Window), found
    (cell,) = found.cells
    assert (cell.drafted_per_position, cell.accepted_per_position) == ((600,) * 3, (300,) * 3)
    assert cell.limited_per_position == (0.0, 200.0, 200.0, 200.0, 200.0), "also where K has no draft"
    assert cell.limited_accepted == 100


def test_a_position_of_which_nothing_was_trimmed_has_no_sample_of_it() -> None:
    assert not [key for key in read(plugin_text(cell_sums())) if TRIMMED in str(key)]


def test_both_have_the_same_bins() -> None:
    for largest in (1, 2, 3, 8, 64, 100, 256, 1000):
        policy = Policy((0, 1), max_num_seqs=largest)
        own = [(*policy.limits(index), policy.label(index)) for index in range(len(policy.bins))]
        assert [(found.low, found.high, found.label) for found in batch_bins(largest)] == own


def test_every_label_of_a_bin_is_read_back() -> None:
    for found in batch_bins(1000):
        text = plugin_text(cell_sums(low=found.low, high=found.high, k=0))
        assert CellSeries(STEPS, found.low, 0) in read(text)
