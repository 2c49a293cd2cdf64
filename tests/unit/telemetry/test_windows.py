"""From samples to windows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.runtimes.vllm import metrics as names
from outrider.runtimes.vllm.metrics import DIALECT
from outrider.telemetry.series import PodKey, PodSeries, Sample
from outrider.telemetry.windows import build_window
from outrider.tuning.observe.window import Gap, GapReason, Window
from tests.unit.telemetry.factories import Counters, a_series

POD = PodKey("default", "a")
START = Counters().ran(steps=1000)


def window(
    series: PodSeries | None, *, since: float = 0.0, until: float = 10.0, max_age: float = 5.0
) -> Window | Gap:
    return build_window(POD, series, dialect=DIALECT, since=since, until=until, max_age_seconds=max_age)


def a_run(*later: Counters) -> PodSeries:
    """Scraped every 4 s from t=2."""
    return a_series(*((2.0 + 4 * i, counters) for i, counters in enumerate((START, *later))))


def good(found: Window | Gap) -> Window:
    assert isinstance(found, Window), found
    return found


def reason(found: Window | Gap) -> GapReason:
    assert isinstance(found, Gap), found
    return found.reason


def test_sums_are_differences_of_the_first_and_last_sample() -> None:
    found = good(window(a_run(START.ran(steps=100), START.ran(steps=200, batch=8, k=3, accepted=1.5))))
    assert (found.pod, found.started_at, found.ended_at) == ("default/a", 2.0, 10.0)
    assert (found.engine_steps, found.request_steps) == (200, 1600)
    assert (found.drafts, found.draft_tokens, found.accepted_tokens) == (1600, 4800, 2400)
    assert found.accepted_per_position == (800, 800, 800, 0, 0)


def test_the_formulas_give_batch_step_time_and_goodput() -> None:
    found = good(window(a_run(START.ran(steps=200, batch=8, k=3, accepted=1.5, step_seconds=0.02))))
    assert found.batch_size == pytest.approx(8)
    assert found.step_seconds == pytest.approx(0.02)
    assert found.tokens_per_step == pytest.approx(2.5)
    assert found.engine_seconds == pytest.approx(4.0)
    assert found.goodput == pytest.approx(8 * 2.5 / 0.02)
    assert found.mean_k == pytest.approx(3)


def test_a_first_token_counts_in_the_batch_but_not_as_a_request_step() -> None:
    found = good(window(a_run(START.ran(steps=100, batch=8, k=0).prefilled(requests=20, prompt_tokens=2000))))
    assert found.request_steps == 800
    assert found.decode_tokens == 800
    assert found.first_tokens == 20
    assert found.batch_size == pytest.approx(8.2)
    assert found.prefill_tokens == 2000


def test_gauges_are_those_at_the_end() -> None:
    series = dict(a_run(START.ran()))
    series[names.REQUESTS_WAITING] = (Sample(2.0, 1.0), Sample(6.0, 7.0), Sample(14.0, 9.0))
    assert good(window(series)).requests_waiting == 7.0


def test_a_gauge_that_is_missing_at_the_end_is_that_of_before() -> None:
    series = dict(a_run(START.ran()))
    first, last = (sample.at for sample in series[names.KV_USAGE])
    series[names.REQUESTS_WAITING] = (Sample((first + last) / 2, 7.0),)
    assert good(window(series)).requests_waiting == 7.0


def test_a_load_step_inside_shows_in_the_batch_range() -> None:
    one = START.ran(steps=100, batch=1)
    found = good(window(a_run(one, one.ran(steps=100, batch=8))))
    assert (found.batch_low, found.batch_high) == (1.0, 8.0)


def test_samples_before_the_table_changed_do_not_count() -> None:
    found = good(window(a_run(START.ran(steps=50), START.ran(steps=150)), since=5.0))
    assert found.started_at == 6.0
    assert found.engine_steps == 100


def test_one_sample_since_the_change_is_too_short() -> None:
    assert reason(window(a_run(START.ran(), START.ran(steps=200)), since=9.0)) is GapReason.TOO_SHORT


def test_a_pod_without_samples_has_no_series() -> None:
    assert reason(window(None)) is GapReason.NO_SERIES
    assert reason(window({})) is GapReason.NO_SERIES


def test_a_missing_counter_is_named() -> None:
    found = window(a_series((2.0, START), (6.0, START.ran()), without=(names.ENGINE_STEPS,)))
    assert found == Gap("default/a", GapReason.NO_SERIES, "no samples of vllm:iteration_tokens_total_count")


def test_an_engine_without_a_drafter_has_no_drafts() -> None:
    per_position = tuple(DIALECT.at_position(p) for p in range(5))
    after = START.ran(k=0)
    drafts = (names.DRAFTS, names.DRAFT_TOKENS, names.ACCEPTED_TOKENS)
    found = good(window(a_series((2.0, START), (6.0, after), without=(*drafts, *per_position))))
    assert (found.drafts, found.mean_k, found.accepted_per_position) == (0, 0, ())


def test_old_samples_are_stale() -> None:
    assert reason(window(a_run(START.ran()), until=30.0)) is GapReason.STALE


def test_samples_of_the_future_are_not_used() -> None:
    assert reason(window(a_run(START.ran()), until=1.0)) is GapReason.STALE


def test_a_counter_that_goes_backwards_is_a_reset() -> None:
    restarted = Counters().ran(steps=3)
    assert reason(window(a_run(restarted))) is GapReason.COUNTER_RESET
    assert reason(window(a_run(restarted, START.ran(steps=500)))) is GapReason.COUNTER_RESET


def test_a_reset_before_the_window_does_not_matter() -> None:
    series = a_series((2.0, START), (6.0, Counters()), (10.0, Counters().ran(steps=10)))
    assert good(window(series, since=6.0)).engine_steps == 10


def test_a_scrape_that_lacks_a_counter_is_left_out() -> None:
    series = dict(a_run(START.ran(steps=100), START.ran(steps=200)))
    series[names.DRAFTS] = series[names.DRAFTS][:2]
    found = good(window(series))
    assert (found.ended_at, found.engine_steps) == (6.0, 100)


def test_an_idle_pod_has_a_window_without_rates() -> None:
    found = good(window(a_run(START)))
    assert (found.batch_size, found.goodput, found.batch_low) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "added"),
    [
        (names.ACCEPTED_TOKENS, 5000),
        (names.DRAFTS, 5000),
        (names.ENGINE_STEPS, 5000),
        (names.GENERATED_TOKENS, 5000),
        (names.DECODE_SECONDS, -16.0),
        (names.DRAFT_TOKENS, -2400),
    ],
)
def test_sums_that_cannot_belong_together_are_contradictory(name: str, added: float) -> None:
    after = START.ran(steps=100, batch=8, k=3)
    broken = Counters({**after.values, name: after.values[name] + added})
    assert reason(window(a_run(broken))) is GapReason.CONTRADICTORY


@pytest.mark.parametrize(("steps", "contradicts"), [(818, False), (819, True)])
def test_sums_may_differ_by_two_in_a_hundred_and_two_more_where_a_scrape_falls_between_updates(
    steps: float, *, contradicts: bool
) -> None:
    after = START.ran(steps=100, batch=8)
    apart = Counters({**after.values, names.ENGINE_STEPS: START.values[names.ENGINE_STEPS] + steps})
    assert isinstance(window(a_run(apart)), Gap) is contradicts


def test_a_negative_counter_is_contradictory() -> None:
    broken = Counters({**START.values, names.DRAFTS: -1.0})
    assert reason(window(a_series((2.0, broken), (6.0, START)))) is GapReason.CONTRADICTORY


@given(st.lists(st.integers(0, 500), min_size=3, max_size=8), st.data())
def test_neighbouring_windows_add_up(steps: list[int], data: st.DataObject) -> None:
    counters = [START]
    for count in steps:
        counters.append(counters[-1].ran(steps=count).prefilled(requests=min(count, 3)))
    series = a_series(*((float(i), c) for i, c in enumerate(counters)))
    cut = float(data.draw(st.integers(1, len(steps) - 1)))
    last = float(len(steps))
    whole = good(window(series, until=last))
    left, right = good(window(series, until=cut)), good(window(series, since=cut, until=last))
    for name in (
        "engine_steps",
        "request_steps",
        "decode_tokens",
        "decode_seconds",
        "draft_tokens",
        "first_tokens",
    ):
        assert getattr(left, name) + getattr(right, name) == pytest.approx(getattr(whole, name))
    assert replace(left, ended_at=right.started_at) == left
