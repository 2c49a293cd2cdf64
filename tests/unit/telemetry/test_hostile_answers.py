"""What one pod shows must not blind the tuner to the others, by way of Prometheus."""

from __future__ import annotations

import gzip
import logging
import tracemalloc
from typing import Any

import pytest

from outrider.runtimes.metrics import PLUGIN_CELLS, CellCounter
from outrider.runtimes.vllm import metrics as names
from outrider.runtimes.vllm.metrics import DIALECT
from outrider.telemetry import answer
from outrider.telemetry.answer import Answer, read_answer
from outrider.telemetry.prometheus import PrometheusSettings, PrometheusSource
from outrider.telemetry.series import MAX_SAMPLES, MAX_SERIES, PodKey, PodMetrics, Sample, Unreadable
from outrider.telemetry.source import AnswerMalformed, AnswerTooLarge
from outrider.telemetry.windows import build_window
from outrider.tuning.observe.window import Gap, GapReason
from tests.unit.telemetry.factories import a_row, a_server, answering
from tests.unit.telemetry.fleet_server import FleetServer

A, B = PodKey("default", "a"), PodKey("default", "b")
HEALTHY = (a_row(pod="b"), a_row(names.KV_USAGE, pod="b"))
WELL = read_answer(list(HEALTHY)).pods[B]

NATIVE: dict[str, Any] = {"histograms": [[1.0, {"count": "3", "sum": "4"}]]}


def a_bad_row(name: str = PLUGIN_CELLS[CellCounter.STEPS], **parts: object) -> dict[str, object]:
    """Of pod a."""
    return {"metric": a_row(name)["metric"], **parts}


def found_with(*rows: dict[str, object]) -> Answer:
    found = read_answer([*rows, *HEALTHY])
    assert found.pods[B] == WELL
    return found


@pytest.mark.parametrize(
    "row",
    [
        a_bad_row(**NATIVE),
        a_bad_row(values=[[1.0, "many"]]),
        a_bad_row(values=[[1.0]]),
        a_bad_row(values=5),
        a_bad_row(),
        a_row(PLUGIN_CELLS[CellCounter.STEPS], batch="7-12", k="²"),
        a_row(PLUGIN_CELLS[CellCounter.STEPS], batch="7-12", k="1000000000"),
        a_row(PLUGIN_CELLS[CellCounter.STEPS], batch="9" * 5000, k="3"),
    ],
    ids=range(8),
)
def test_a_row_of_the_plugin_that_cannot_be_read_is_skipped_and_told(row: dict[str, object]) -> None:
    found = found_with(row, a_row())
    assert found.pods[A] == {names.GENERATED_TOKENS: (Sample(1.0, 1.0), Sample(2.0, 2.0))}
    told = str(found.skipped[A])
    assert told.startswith(f"1 series cannot be parsed, the first: {PLUGIN_CELLS[CellCounter.STEPS]}: ")
    assert len(told) < 300


@pytest.mark.parametrize(
    "row",
    [
        a_bad_row(names.REQUEST_STEPS, **NATIVE),
        a_bad_row(names.KV_USAGE, values=[[1.0, "many"]]),
        a_row(names.ACCEPTED_PER_POSITION, position="²"),
    ],
    ids=range(3),
)
def test_a_pod_whose_own_counters_cannot_be_read_is_a_gap_that_names_them(row: dict[str, object]) -> None:
    found = found_with(row, a_row()).pods[A]
    gap = build_window(A, found, dialect=DIALECT, since=0, until=2, max_age_seconds=5)
    assert isinstance(gap, Gap)
    assert gap.reason is GapReason.UNREADABLE
    assert "1 series cannot be parsed, the first: vllm:" in gap.detail


def test_an_error_while_a_row_is_read_costs_that_row(monkeypatch: pytest.MonkeyPatch) -> None:
    read = answer._ROW

    class Failing:
        def validate_python(self, raw: dict[str, dict[str, str]]) -> object:
            if raw["metric"]["pod"] == "a":
                raise OverflowError("int too large")
            return read.validate_python(raw)

    monkeypatch.setattr(answer, "_ROW", Failing())
    assert found_with(a_row()).pods[A] == Unreadable(
        f"1 series cannot be parsed, the first: {names.GENERATED_TOKENS}: cannot be parsed (OverflowError)"
    )


def test_an_error_while_samples_are_put_together_costs_that_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    together = answer.pod_series  # type: ignore[attr-defined]

    def first_fails(_: object) -> PodMetrics:
        monkeypatch.setattr(answer, "pod_series", together)
        raise ArithmeticError

    monkeypatch.setattr(answer, "pod_series", first_fails)
    assert found_with(a_row()).pods[A] == Unreadable("its samples cannot be combined (ArithmeticError)")


def test_a_row_without_labels_is_nobodys() -> None:
    assert found_with({"metric": 5}, {}, {"metric": {"pod": "a"}, "values": []}).pods.keys() == {B}


def test_a_pod_with_too_many_series_is_a_gap_and_the_others_go_on() -> None:
    rows = [a_row(PLUGIN_CELLS[CellCounter.STEPS], batch=str(low), k="0") for low in range(1, MAX_SERIES + 2)]
    assert found_with(*rows).pods[A] == Unreadable(
        f"{MAX_SERIES + 1} series exceed the limit of {MAX_SERIES}"
    )
    assert not isinstance(found_with(*rows[:-1]).pods[A], Unreadable)


def test_a_pod_with_too_many_samples_is_a_gap_and_the_others_go_on() -> None:
    often = a_row(values=[[at, "1"] for at in range(MAX_SAMPLES + 1)])
    found = found_with(often).pods[A]
    assert isinstance(found, Unreadable)
    assert f"{MAX_SAMPLES + 1} samples" in found.detail


EVIL, NAMESAKE = PodKey("evil", "m-x"), PodKey("default", "m-x")
NEIGHBOUR, OTHER = PodKey("evil", "m-y"), PodKey("default", "m-z")
LIMIT = 20_000  # bytes, for some 100 rows


async def fetch(source: PrometheusSource) -> tuple[set[PodKey], dict[PodKey, PodMetrics]]:
    """The pods that can be measured, and the others."""
    found = await source.fetch(60)
    useless = {pod: metrics for pod, metrics in found.items() if isinstance(metrics, Unreadable)}
    return set(found) - set(useless), dict(useless)


async def test_a_pod_that_makes_the_answer_too_large_is_shut_out_by_name_and_named() -> None:
    server = FleetServer({EVIL: 1000, NAMESAKE: 1, NEIGHBOUR: 1, OTHER: 1}, series={EVIL: 1_000_000})
    with a_server(server) as url:
        source = PrometheusSource(PrometheusSettings(url, max_response_bytes=LIMIT))
        usable, useless = await fetch(source)
        assert usable == {NAMESAKE, NEIGHBOUR, OTHER}
        assert useless == {EVIL: Unreadable(f"1000000 series exceed the limit of {MAX_SERIES}")}
        assert (len(server.asked), server.counted) == (1 + 1 + 2, 1)


async def test_a_pod_that_is_shut_out_comes_back_when_it_has_fewer_series() -> None:
    server = FleetServer({EVIL: 1000, OTHER: 1}, series={EVIL: 1_000_000})
    with a_server(server) as url:
        source = PrometheusSource(PrometheusSettings(url, max_response_bytes=LIMIT))
        await source.fetch(60)
        usable, useless = await fetch(source)
        assert (usable, set(useless), server.counted) == ({OTHER}, {EVIL}, 2)
        server.rows, server.series = {EVIL: 1, OTHER: 1}, {}
        for _ in range(2):
            assert await fetch(source) == ({EVIL, OTHER}, {})
        assert server.counted == 3


async def test_where_nobody_has_too_many_series_only_one_part_is_blind() -> None:
    pods = [PodKey("default", f"m-{end}") for end in "bcdfghj0"]
    server = FleetServer({**dict.fromkeys(pods, 1), pods[0]: 1000}, series={pods[0]: 900})
    with a_server(server) as url:
        source = PrometheusSource(PrometheusSettings(url, max_response_bytes=LIMIT))
        for _ in range(2):
            usable, useless = await fetch(source)
            assert usable == set(pods[1:])
            assert useless == {pods[0]: Unreadable(f"the answer is larger than {LIMIT} bytes")}


async def test_nobody_is_counted_while_answers_fit() -> None:
    server = FleetServer({A: 1, B: 1})
    with a_server(server) as url:
        await PrometheusSource(PrometheusSettings(url)).fetch(60)
    assert (len(server.asked), server.counted) == (1, 0)


async def test_a_pod_is_complained_of_when_it_begins_and_not_at_every_tick(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = FleetServer({EVIL: 1000, OTHER: 1}, series={EVIL: 1_000_000})
    with a_server(server) as url, caplog.at_level(logging.WARNING, "outrider"):
        source = PrometheusSource(PrometheusSettings(url, max_response_bytes=LIMIT))
        for _ in range(3):
            await source.fetch(60)
    assert [record.getMessage() for record in caplog.records] == [
        f"metrics of evil/m-x: 1000000 series exceed the limit of {MAX_SERIES}"
    ]


async def test_an_answer_in_layers_of_compression_is_refused() -> None:
    body = gzip.compress(gzip.compress(b"{}"))
    stacked = answering(body, headers={"Content-Encoding": "gzip, gzip"})
    with a_server(stacked) as url, pytest.raises(AnswerMalformed, match="compression"):
        await PrometheusSource(PrometheusSettings(url)).fetch(60)


async def test_what_is_unpacked_of_a_compressed_answer_is_bounded() -> None:
    bomb = gzip.compress(b" " * 100_000_000)
    with a_server(answering(bomb, headers={"Content-Encoding": "gzip"})) as url:
        source = PrometheusSource(PrometheusSettings(url, max_response_bytes=1_000_000))
        tracemalloc.start()
        try:
            with pytest.raises(AnswerTooLarge):
                await source.fetch(60)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 5_000_000
