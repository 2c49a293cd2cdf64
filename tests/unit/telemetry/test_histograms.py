"""Histograms of latencies: which are read, and how they become a part of a window."""

from __future__ import annotations

from math import inf

import pytest

from outrider.runtimes.vllm import metrics as names
from outrider.runtimes.vllm.metrics import DIALECT
from outrider.telemetry.page import Misread, Reading, read_text
from outrider.telemetry.promql import query
from outrider.telemetry.series import BucketSeries, LabelError, PodKey, PodSeries, Sample, series_key
from outrider.telemetry.windows import build_window
from outrider.tuning.observe.latencies import Latencies
from outrider.tuning.observe.window import Window
from tests.unit.telemetry.factories import Counters, a_series

POD = PodKey("default", "a")
BUCKETS = names.INTER_TOKEN_BUCKETS
LINE = f'{BUCKETS}{{engine="0",le="0.025",model_name="m"}} 7.0\n'


def a_run(*rows: tuple[float, float, float], name: str = BUCKETS) -> PodSeries:
    """Two scrapes with cumulative buckets. rows: edge, before, after."""
    series = dict(a_series((2.0, Counters()), (6.0, Counters().ran())))
    for edge, before, after in rows:
        series[BucketSeries(name, edge)] = (Sample(2.0, before), Sample(6.0, after))
    return series


def window(series: PodSeries) -> Window:
    found = build_window(POD, series, dialect=DIALECT, since=0.0, until=8.0, max_age_seconds=5.0)
    assert isinstance(found, Window), found
    return found


def test_cumulative_buckets_become_counts_between_edges() -> None:
    found = window(a_run((0.01, 100, 130), (0.025, 100, 180), (inf, 100, 200)))
    assert found.latencies == Latencies((0.01, 0.025), (30, 50, 20))
    assert found.first_token_latencies is None


def test_first_tokens_have_a_histogram_of_their_own() -> None:
    found = window(a_run((0.5, 0, 8), (inf, 0, 9), name=names.FIRST_TOKEN_BUCKETS))
    assert found.latencies is None
    assert found.first_token_latencies == Latencies((0.5,), (8, 1))


@pytest.mark.parametrize(
    "rows",
    [
        ((0.01, 0, 5), (0.025, 0, 9)),
        ((inf, 0, 9),),
        ((0.01, 0, 9), (inf, 0, 5)),
        ((0.01, 5, 4), (inf, 5, 9)),
        ((0.0, 0, 4), (inf, 0, 9)),
    ],
    ids=[
        "without the last bucket",
        "without edges",
        "falling buckets",
        "a counter that fell",
        "an edge of 0",
    ],
)
def test_a_histogram_that_contradicts_itself_costs_the_histogram_alone(
    rows: tuple[tuple[float, float, float], ...],
) -> None:
    found = window(a_run(*rows))
    assert found.latencies is None
    assert found.engine_steps == 100


def test_a_bucket_that_misses_a_scrape_costs_the_histogram_alone() -> None:
    series = {**a_run((0.01, 0, 5), (inf, 0, 9)), BucketSeries(BUCKETS, 0.01): (Sample(6.0, 5.0),)}
    assert window(series).latencies is None


@pytest.mark.parametrize("edge", ["", "fast", "-1", "nan", "1" * 40, "1_0", "\u0661"])
def test_an_edge_that_is_not_a_number_is_refused(edge: str) -> None:
    with pytest.raises(LabelError, match="edge of a bucket"):
        series_key(BUCKETS, {"le": edge})


@pytest.mark.parametrize(("text", "edge"), [("0.025", 0.025), ("1.0", 1.0), ("1", 1.0), ("+Inf", inf)])
def test_edges_are_equal_however_they_are_written(text: str, edge: float) -> None:
    assert series_key(BUCKETS, {"le": text}) == BucketSeries(BUCKETS, edge)


def test_a_page_is_read_for_histograms_only_where_a_model_has_targets() -> None:
    (found,) = read_text(LINE, {}, histograms=True).values()
    assert isinstance(found, Reading)
    assert found.key == BucketSeries(BUCKETS, 0.025)
    assert read_text(LINE, {}) == {}


def test_a_wrong_edge_on_a_page_is_reported_as_misread() -> None:
    (found,) = read_text(LINE.replace("0.025", "fast"), {}, histograms=True).values()
    assert isinstance(found, Misread)


def test_prometheus_is_asked_for_histograms_only_where_a_model_has_targets() -> None:
    assert "inter_token_latency_seconds_bucket" not in query(16.0, [POD])
    wanted = query(16.0, [POD], histograms=True)
    assert "inter_token_latency_seconds_bucket" in wanted
    assert "time_to_first_token_seconds_bucket" in wanted
