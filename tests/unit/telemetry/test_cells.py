"""From the plugin's counters to exact cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.runtimes.metrics import PLUGIN_CELLS, PLUGIN_EPOCH, CellCounter, CellSeries, Counter
from outrider.runtimes.vllm import metrics as names
from outrider.runtimes.vllm.metrics import DIALECT
from outrider.telemetry.cells import check_totals
from outrider.telemetry.series import (
    LabelError,
    PodSeries,
    Sample,
    pod_series,
    series_key,
)
from outrider.telemetry.windows import build_window
from outrider.tuning.observe.window import Cell, Gap, GapReason, Window
from tests.unit.telemetry.factories import POD, Counters, PluginCounters, a_plugin_series, a_series

EMITTED = PLUGIN_CELLS[CellCounter.EMITTED]
STEPS = PLUGIN_CELLS[CellCounter.STEPS]
VERIFIED = PLUGIN_CELLS[CellCounter.VERIFIED]


def window(series: PodSeries, *, since: float = 0.0, until: float = 10.0) -> Window | Gap:
    return build_window(POD, series, dialect=DIALECT, since=since, until=until, max_age_seconds=5.0)


def good(found: Window | Gap) -> Window:
    assert isinstance(found, Window), found
    return found


def a_run(*scrapes: tuple[Counters, PluginCounters]) -> PodSeries:
    """Scraped every 4 s from t=2."""
    return a_plugin_series(*((2.0 + 4 * i, *both) for i, both in enumerate(scrapes)))


START = (Counters().ran(steps=1000, k=3), PluginCounters().ran(steps=1000, k=3))


def ran(before: tuple[Counters, PluginCounters], **steps: float) -> tuple[Counters, PluginCounters]:
    """Both count the same steps. steps: see `PluginCounters.ran`."""
    counters, plugin = before
    shared = {name: value for name, value in steps.items() if name not in ("low", "prefill", "context")}
    return counters.ran(**shared), plugin.ran(**steps)  # type: ignore[arg-type]


def test_a_cell_holds_exact_sums_of_its_bin_and_k() -> None:
    after = ran(START, steps=100, batch=8, k=3, accepted=1.5, step_seconds=0.02, prefill=50, context=500)
    (cell,) = good(window(a_run(START, after))).cells
    assert cell == Cell(
        trimmed_per_position=(0, 0, 0),
        low=7,
        num_speculative_tokens=3,
        steps=100,
        step_seconds=pytest.approx(2.0),  # type: ignore[arg-type]
        requests=800,
        emitted_tokens=2000,
        drafted_per_position=(800, 800, 800),
        accepted_per_position=(400, 400, 400),
        prefill_tokens=50,
        context_tokens=400_000,
    )


def test_k_0_has_no_positions() -> None:
    (cell,) = good(window(a_run(START, ran(START, steps=100, k=0)))).cells
    assert (cell.num_speculative_tokens, cell.drafted_per_position) == (0, ())


def test_several_k_in_one_window_are_told_apart() -> None:
    after = ran(ran(START, steps=60, k=3), steps=40, k=1, accepted=0.5)
    found = good(window(a_run(START, after))).cells
    assert [(c.low, c.num_speculative_tokens, c.steps) for c in found] == [(7, 1, 40), (7, 3, 60)]


def test_a_cell_that_took_no_step_is_left_out() -> None:
    start = ran(START, steps=10, k=1, accepted=0.5)
    found = good(window(a_run(start, ran(start, steps=100, k=3)))).cells
    assert [c.num_speculative_tokens for c in found] == [3]


def test_a_counter_that_appears_inside_the_window_counts_from_zero() -> None:
    after = ran(START, steps=40, k=5, accepted=2.0)
    found = good(window(a_run(START, after, ran(after, steps=10, k=5, accepted=2.0)))).cells
    assert [(c.num_speculative_tokens, c.steps) for c in found] == [(5, 50)]


def test_steps_of_mixed_k_are_left_out_and_still_counted_against_vllm() -> None:
    counters, plugin = ran(START, steps=100, k=3)
    after = (counters.ran(steps=60, k=3), plugin.ran(steps=60, k=None))
    (cell,) = good(window(a_run(START, after))).cells
    assert cell.steps == 100


def test_an_engine_without_the_plugin_has_no_cells() -> None:
    found = good(window(a_series((2.0, START[0]), (6.0, START[0].ran()))))
    assert found.cells == ()


def test_an_engine_with_the_plugin_that_did_nothing_has_no_cells() -> None:
    nothing = (Counters(), PluginCounters())
    assert good(window(a_run(nothing, nothing))).cells == ()


def test_a_scrape_without_the_plugins_metrics_is_left_out() -> None:
    series = dict(a_run(START, ran(START, steps=100), ran(START, steps=200)))
    for key in series:
        if isinstance(key, CellSeries) or key == PLUGIN_EPOCH:
            series[key] = series[key][:2]
    found = good(window(series))
    assert (found.ended_at, found.engine_steps, found.cells[0].steps) == (6.0, 100, 100)


def test_a_restarted_engine_is_a_reset() -> None:
    found = window(a_run(START, ran((Counters(), PluginCounters()), steps=5)))
    assert isinstance(found, Gap)
    assert found.reason is GapReason.COUNTER_RESET


def test_a_cell_that_goes_backwards_alone_is_a_reset_and_named() -> None:
    series = dict(a_run(START, ran(START, steps=100)))
    series[CellSeries(STEPS, 7, 3)] = (Sample(2.0, 100), Sample(6.0, 3))
    found = window(series)
    assert isinstance(found, Gap)
    assert found.reason is GapReason.COUNTER_RESET
    assert 'outrider:steps_total{batch from 7,k="3"}' in found.detail


def test_a_counter_that_vanishes_is_contradictory() -> None:
    series = dict(a_run(START, ran(START, steps=100), ran(START, steps=200)))
    key = CellSeries(EMITTED, 7, 3)
    series[key] = (series[key][0], Sample(6.0, series[key][1].value))
    found = window(series)
    assert isinstance(found, Gap)
    assert found.reason is GapReason.CONTRADICTORY
    assert EMITTED in found.detail


def test_a_plugin_whose_counting_is_off_leaves_vllms_own_sums() -> None:
    found = good(window(a_run(START, (START[0].ran(steps=200, k=3), START[1]))))
    assert (found.engine_steps, found.cells) == (200, ())


@pytest.mark.parametrize("factor", [0.1, 0.5, 2.0])
def test_a_plugin_that_disagrees_wildly_with_vllm_is_contradictory(factor: float) -> None:
    after = (START[0].ran(steps=200, k=3), START[1].ran(steps=200 * factor, k=3))
    found = window(a_run(START, after))
    assert isinstance(found, Gap)
    assert found.reason is GapReason.CONTRADICTORY
    assert f"the plugin counted {4000 * factor:.0f} in {EMITTED}, the engine 4000" in found.detail


@pytest.mark.parametrize("steps", [196, 200, 204])
def test_some_steps_between_two_readings_are_no_contradiction(steps: float) -> None:
    after = (START[0].ran(steps=200, k=3), START[1].ran(steps=steps, k=3))
    assert good(window(a_run(START, after))).cells[0].steps == steps


def test_few_steps_are_not_judged() -> None:
    after = (START[0].ran(steps=3, k=3), START[1].ran(steps=1, k=3))
    assert good(window(a_run(START, after))).cells[0].steps == 1


@pytest.mark.parametrize(
    ("name", "labels", "key"),
    [
        (
            STEPS,
            {"batch": "7-12", "k": "3"},
            CellSeries(STEPS, 7, 3),
        ),
        (
            STEPS,
            {"batch": "25+", "k": "0"},
            CellSeries(STEPS, 25, 0),
        ),
        (
            STEPS,
            {"batch": "1", "k": "mixed"},
            CellSeries(STEPS, 1, None),
        ),
        (
            VERIFIED,
            {"batch": "2-3", "k": "5", "position": "4"},
            CellSeries(VERIFIED, 2, 5, 4),
        ),
        (names.PROMPT_TOKENS, {"source": "local_cache_hit"}, None),
        (names.PROMPT_TOKENS, {"source": "local_compute"}, names.PROMPT_TOKENS),
        (names.ACCEPTED_PER_POSITION, {"position": "2"}, DIALECT.at_position(2)),
        (PLUGIN_EPOCH, {}, PLUGIN_EPOCH),
    ],
)
def test_labels_name_the_series(name: str, labels: dict[str, str], key: object) -> None:
    assert series_key(name, labels) == key


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        (STEPS, {"batch": "many", "k": "3"}),
        (STEPS, {"batch": "7-12", "k": "three"}),
        (STEPS, {"k": "3"}),
        (STEPS, {"batch": "7-12"}),
        (STEPS, {"batch": "7-12", "k": "3", "position": "0"}),
        (STEPS, {"batch": "²", "k": "3"}),
        (STEPS, {"batch": "7-12", "k": "²"}),
        (STEPS, {"batch": "7-12", "k": "٣"}),
        (STEPS, {"batch": "7-12", "k": "33"}),
        (STEPS, {"batch": "7-12", "k": "1000000000"}),
        (STEPS, {"batch": "7-12", "k": "9" * 5000}),
        (STEPS, {"batch": "9" * 5000, "k": "3"}),
        (STEPS, {"batch": str(2**20 + 1), "k": "3"}),
        (VERIFIED, {"batch": "7-12", "k": "3"}),
        (VERIFIED, {"batch": "7-12", "k": "3", "position": "32"}),
        (names.ACCEPTED_PER_POSITION, {}),
        (names.ACCEPTED_PER_POSITION, {"position": "²"}),
        (names.ACCEPTED_PER_POSITION, {"position": "32"}),
        (names.ACCEPTED_PER_POSITION, {"position": "9" * 5000}),
    ],
    ids=range(19),
)
def test_labels_that_no_engine_writes_are_refused(name: str, labels: dict[str, str]) -> None:
    with pytest.raises(LabelError):
        series_key(name, labels)


def test_cells_of_several_engines_are_added_and_one_that_starts_later_counts_from_zero() -> None:
    key = CellSeries(STEPS, 7, 3)
    series = pod_series([(key, {1.0: 10.0, 2.0: 20.0}), (key, {2.0: 5.0})])
    assert series[key] == (Sample(1.0, 10.0), Sample(2.0, 25.0))


def test_cells_that_stood_still_are_left_out_and_late_ones_are_not() -> None:
    still, late = (
        CellSeries(STEPS, 1, 0),
        CellSeries(STEPS, 1, 1),
    )
    both = {1.0: 10.0, 2.0: 10.0}
    series = pod_series([(names.KV_USAGE, both), (still, both), (late, {2.0: 10.0})])
    assert set(series) == {names.KV_USAGE, late}


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 3, 5]), st.integers(0, 300)), min_size=3, max_size=8), st.data()
)
def test_cells_of_neighbouring_windows_add_up(runs: list[tuple[int, int]], data: st.DataObject) -> None:
    states = [START]
    for k, steps in runs:
        states.append(ran(states[-1], steps=steps, k=k, accepted=k / 2))
    series = a_plugin_series(*((float(at), *both) for at, both in enumerate(states)))
    cut, last = float(data.draw(st.integers(1, len(runs) - 1))), float(len(runs))
    parts = (window(series, until=cut), window(series, since=cut, until=last))
    added: dict[int, float] = {}
    for cell in (cell for part in parts for cell in good(part).cells):
        added[cell.num_speculative_tokens] = added.get(cell.num_speculative_tokens, 0.0) + cell.steps
    whole = {c.num_speculative_tokens: c.steps for c in good(window(series, until=last)).cells}
    assert added == whole


def test_a_counter_that_neither_the_plugin_nor_vllm_has_contradicts_nothing() -> None:
    deltas = {
        CellSeries(STEPS, 7, 0): 10.0,
        CellSeries(EMITTED, 7, 0): 80.0,
    }
    check_totals(deltas, {Counter.ENGINE_STEPS: 10.0, Counter.GENERATED_TOKENS: 80.0}, DIALECT)


def test_drafts_of_requests_that_were_given_up_are_no_contradiction() -> None:
    """200 steps of few requests drafted nothing, and four steps of four requests 5 tokens each.

    The clients went away during the last of them, whose drafts vLLM does not count.
    """
    drafted = {CellSeries(VERIFIED, 4, 5, position): 16.0 for position in range(5)}
    deltas = {
        CellSeries(STEPS, 1, 0): 200.0,
        CellSeries(EMITTED, 1, 0): 400.0,
        CellSeries(STEPS, 4, 5): 4.0,
        CellSeries(EMITTED, 4, 5): 30.0,
        **drafted,
    }
    totals = {Counter.ENGINE_STEPS: 204.0, Counter.GENERATED_TOKENS: 430.0, Counter.DRAFT_TOKENS: 50.0}
    check_totals(deltas, totals, DIALECT)
