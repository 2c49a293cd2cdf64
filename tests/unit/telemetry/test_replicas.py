"""Two replicas of Prometheus behind one address, without deduplication."""

from __future__ import annotations

import logging
from itertools import permutations
from typing import Any

import pytest

from outrider.api.conditions import ConditionStatus
from outrider.api.reasons import MetricsReason
from outrider.controller.tune.conditions import statements
from outrider.runtimes.vllm import metrics as names
from outrider.runtimes.vllm.metrics import DIALECT
from outrider.telemetry.answer import read_answer
from outrider.telemetry.prometheus import PrometheusSettings, PrometheusSource
from outrider.telemetry.series import PodKey, Sample
from outrider.telemetry.source import Measurements
from outrider.telemetry.windows import build_window
from outrider.tuning.latency_targets import RecentLatencies
from outrider.tuning.observe.window import Window
from tests.unit.reasons.tuner_scenes import LONG_ANSWERS, an_outcome
from tests.unit.telemetry.factories import a_row, a_server, an_answer, answering

POD = PodKey("default", "a")
SLOPES = {
    names.ENGINE_STEPS: 10,
    names.REQUEST_STEPS: 100,
    names.DECODE_SECONDS: 10,
    names.FIRST_TOKENS: 0.1,
    names.GENERATED_TOKENS: 100,
    names.REQUESTS_WAITING: 0,
}


def scraped(shift: float = 0, scrapes: int = 4, **labels: str) -> list[dict[str, object]]:
    """Rows of one replica, every 5 s from 100 s on."""
    times = [100 + 5 * index + shift for index in range(scrapes)]
    return [
        a_row(name, values=[[at, str(4 + slope * at)] for at in times], **{"engine": "0", **labels})
        for name, slope in SLOPES.items()
    ]


def window_of(rows: list[dict[str, object]]) -> Window:
    found = build_window(
        POD, read_answer(rows).pods[POD], dialect=DIALECT, since=90, until=130, max_age_seconds=60
    )
    assert isinstance(found, Window), found
    return found


ALONE = window_of(scraped())


@pytest.mark.parametrize("shift", [0, 0.001, 2, 4.9, 9])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"replica": "a"}, {"replica": "b"}),
        ({"prometheus_replica": "prometheus-0"}, {"prometheus_replica": "prometheus-1"}),
        ({}, {"receive": "true"}),
        ({"cluster": "a", "prometheus": "x/y"}, {"cluster": "b", "prometheus": "x/z"}),
        ({"endpoint": "http", "container": "engine"}, {"endpoint": "metrics", "container": "engine"}),
    ],
    ids=range(5),
)
def test_one_replica_is_read_and_the_others_are_not_added(
    one: dict[str, Any], other: dict[str, Any], shift: float
) -> None:
    assert window_of(scraped(**one) + scraped(shift, **other)) == ALONE
    assert window_of(scraped(shift, **other) + scraped(**one)) == ALONE


def test_any_number_of_replicas_is_read_as_the_first() -> None:
    copies = [scraped(index, replica=name) for index, name in enumerate("abc")]
    for order in permutations(copies):
        assert window_of([row for rows in order for row in rows]) == ALONE


def test_the_labels_that_differ_are_named() -> None:
    found = read_answer(scraped(replica="a", zone="x") + scraped(replica="b", zone="y") + [a_row(pod="b")])
    assert found.copied == {POD: ("replica", "zone")}
    assert read_answer(scraped(replica="a")).copied == {}


def test_a_replica_that_scrapes_no_more_is_left() -> None:
    rows = scraped(-15, replica="a") + scraped(replica="b")
    assert window_of(rows) == ALONE


def test_a_series_that_only_the_other_replica_has_is_left_out() -> None:
    extra = a_row(names.KV_USAGE, replica="b", engine="0", values=[[102, "1"]])
    assert window_of([*scraped(replica="a"), *scraped(2, replica="b"), extra]) == ALONE


def test_engines_of_one_pod_are_added_on_one_replica() -> None:
    def both(replica: str, shift: float = 0) -> list[dict[str, object]]:
        return scraped(shift, replica=replica) + scraped(shift, replica=replica, engine="1")

    doubled = window_of(both("a"))
    assert (doubled.engine_steps, doubled.requests_waiting) == (2 * ALONE.engine_steps, 8)
    assert window_of(both("a") + both("b", 2)) == doubled


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"engine": "0"}, {"engine": "1"}),
        ({"model_name": "x"}, {"model_name": "y"}),
        ({"engine": "0", "rank": "0"}, {"engine": "1", "rank": "1"}),
    ],
    ids=range(3),
)
def test_what_engines_write_tells_engines_apart(one: dict[str, Any], other: dict[str, Any]) -> None:
    found = read_answer([a_row(**one), a_row(**other)])
    assert found.pods[POD] == {names.GENERATED_TOKENS: (Sample(1.0, 2.0), Sample(2.0, 4.0))}
    assert found.copied == {}


def test_a_metric_without_the_labels_that_differ_is_kept() -> None:
    split = [a_row(names.KV_USAGE, kind=kind, values=[[1.0, "0.5"], [2.0, "0.5"]]) for kind in "ab"]
    assert read_answer([a_row(), *split]).pods[POD] == {
        names.GENERATED_TOKENS: (Sample(1.0, 1.0), Sample(2.0, 2.0)),
        names.KV_USAGE: (Sample(1.0, 0.5), Sample(2.0, 0.5)),
    }


async def test_replicas_are_reported_once_with_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    rows = scraped(prometheus_replica="a") + scraped(2, prometheus_replica="b") + [a_row(pod="b")]
    with a_server(answering(an_answer(*rows))) as url, caplog.at_level(logging.WARNING, "outrider"):
        source = PrometheusSource(PrometheusSettings(url))
        for _ in range(3):
            found = await source.fetch(60)
        source.close()
    (told,) = (record.getMessage() for record in caplog.records)
    assert "different labels prometheus_replica; Outrider reads one copy" in told
    assert "--query.replica-label=prometheus_replica" in told
    assert isinstance(found, Measurements)
    assert found.notes == {POD: told}
    assert (found.note([POD]), found.note([PodKey("default", "b")])) == (told, "")


def test_the_status_says_it_beside_fresh_samples() -> None:
    outcome = an_outcome(note="Mend this.")
    said = statements(
        outcome,
        before=(),
        latencies=RecentLatencies(),
        acceptance=None,
        answers=LONG_ANSWERS,
        speedup=None,
    )
    metrics = next(each for each in said if each.reason is MetricsReason.FRESH)
    assert (metrics.status, metrics.message) == (ConditionStatus.TRUE, "1 pod has fresh samples. Mend this.")
