"""What one pod shows must not blind the tuner to the others, where the operator scrapes them itself."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import aiohttp
import httpx
import pytest

from outrider.runtimes.metrics import PLUGIN_CELLS, CellCounter
from outrider.runtimes.vllm import metrics as names
from outrider.runtimes.vllm.metrics import DIALECT
from outrider.telemetry import pod_scrape
from outrider.telemetry.page import Misread, read_text
from outrider.telemetry.series import MAX_SERIES, PodSeries, Samples, SeriesKey, Unreadable
from outrider.telemetry.windows import build_window
from outrider.tuning.observe.window import Gap, GapReason
from tests.unit.telemetry.engine_pages import A, Answer, B, Engines, page, text, usable
from tests.unit.telemetry.factories import Counters, PluginCounters, exposition

GOOD = exposition(Counters().ran(), PluginCounters().ran())


LONG_LINES = [b'outrider:steps_total{model_name="%s%d"} 1' % (b"x" * 900, index) for index in range(1200)]


def cells(count: int) -> bytes:
    lines = (f'{PLUGIN_CELLS[CellCounter.STEPS]}{{batch="{low}",k="0"}} 1' for low in range(1, count + 1))
    return "\n".join(lines).encode() + b"\n"


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (page(cells(MAX_SERIES + 1)), f"{MAX_SERIES + 1} series exceed the limit of {MAX_SERIES}"),
        (page(GOOD + b'vllm:generation_tokens_total{a="' + b"x" * 2000 + b'"} 1\n'), "more than 1024"),
        (page(b"\n".join(LONG_LINES)), "exceeds 1048576 characters"),
        (page(GOOD + b"vllm:generation_tokens_total{" + b'a="",' * 100 + b"} 1\n"), "16 quotes"),
        (page(GOOD + b'vllm:generation_tokens_total{ ="0"} 1\n'), "not the text format"),
        (
            page(GOOD + b'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="\xc2\xb2"} 1\n'),
            "position",
        ),
        (page(GOOD + b"outrider:epoch 1 " + b"9" * 400 + b"\n"), "not the text format"),
    ],
    ids=range(7),
)
async def test_a_pod_beyond_the_limits_is_a_gap_that_names_it_and_the_others_go_on(
    answer: Answer, complaint: str
) -> None:
    engines = Engines(a=answer, b=text(100))
    async with engines.source() as source:
        found = await source.fetch(60)
    assert usable(found) == {B}
    gap = build_window(A, found[A], dialect=DIALECT, since=0, until=100, max_age_seconds=30)
    assert isinstance(gap, Gap)
    assert gap.reason is GapReason.UNREADABLE
    assert complaint in gap.detail


def raising(error: Exception) -> Answer:
    def answer(_: httpx.Request) -> httpx.Response:
        raise error

    return answer


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (aiohttp.InvalidURL("no host"), "InvalidURL: no host"),
        (OverflowError("int too large"), "OverflowError: int too large"),
        (TypeError(), "TypeError"),
        (KeyError("x"), "KeyError: 'x'"),
        (ExceptionGroup("several", [OSError()]), "ExceptionGroup: several (1 sub-exception)"),
        (ConnectionResetError("x" * 1000), "ConnectionResetError: " + "x" * 177 + "…"),
    ],
    ids=range(6),
)
async def test_an_error_that_is_not_expected_costs_one_pod_and_is_named(
    error: Exception, complaint: str
) -> None:
    engines = Engines(a=raising(error), b=text(100))
    async with engines.source() as source:
        found = await source.fetch(60)
    assert usable(found) == {B}
    told = found[A]
    assert isinstance(told, Unreadable)
    assert told.detail.startswith(complaint)
    assert len(told.detail) <= 200


async def test_scrapes_that_cannot_be_put_together_cost_one_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    together = pod_scrape.pod_series  # type: ignore[attr-defined]

    def first_fails(_: Iterable[tuple[SeriesKey, Samples]]) -> PodSeries:
        monkeypatch.setattr(pod_scrape, "pod_series", together)
        raise ArithmeticError("a sum")

    monkeypatch.setattr(pod_scrape, "pod_series", first_fails)
    two = GOOD + b'vllm:generation_tokens_total{engine="1"} 5\n'
    engines = Engines(a=page(two), b=page(two))
    async with engines.source() as source:
        found = await source.fetch(60)
    assert (usable(found), found[A]) == ({B}, Unreadable("ArithmeticError: a sum"))


async def test_as_many_series_as_are_allowed_are_read() -> None:
    engines = Engines(a=page(cells(MAX_SERIES)), b=text())
    async with engines.source() as source:
        assert usable(await source.fetch(60)) == {A, B}


async def test_a_cell_that_cannot_be_read_is_skipped_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    bad = f'{PLUGIN_CELLS[CellCounter.STEPS]}{{batch="7-12",k="1000000000"}} 1\n'
    engines = Engines(a=page(GOOD + bad.encode()), b=text())
    with caplog.at_level(logging.WARNING, "outrider"):
        async with engines.source() as source:
            for engines.now in (100.0, 110.0):
                found = await source.fetch(60)
    metrics = found[A]
    assert not isinstance(metrics, Unreadable)
    assert len(metrics[names.ENGINE_STEPS]) == 2
    (told,) = (record.getMessage() for record in caplog.records)
    assert told.startswith(
        "metrics of default/a: 1 series cannot be parsed, the first: outrider:steps_total: k="
    )


async def test_a_pod_that_was_well_in_between_is_complained_of_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engines = Engines(a=page(b"", 500), b=text())
    with caplog.at_level(logging.WARNING, "outrider"):
        async with engines.source() as source:
            for engines.answers["a"] in (page(b"", 500), page(b"", 500), text(), page(b"", 500)):
                await source.fetch(60)
    assert [record.getMessage() for record in caplog.records] == ["metrics of default/a: HTTP 500"] * 2


def test_a_whole_number_beyond_every_float_is_of_no_use() -> None:
    line = "vllm:generation_tokens_total 1" + "0" * 400
    assert read_text(line, {}) == {line: None}


def test_a_label_that_is_no_number_is_misread_and_not_an_error() -> None:
    line = f'{PLUGIN_CELLS[CellCounter.STEPS]}{{batch="²",k="3"}} 1'
    (found,) = read_text(line, {}).values()
    assert isinstance(found, Misread)
    assert found.name == PLUGIN_CELLS[CellCounter.STEPS]


async def test_scrapes_that_no_window_reaches_back_to_are_forgotten() -> None:
    engines = Engines(a=text(100))
    async with engines.source() as source:
        for engines.now in (100.0, 110.0, 120.0):
            await source.fetch(15)
        wide = (await source.fetch(1e6))[A]
    assert not isinstance(wide, Unreadable)
    assert [sample.at for sample in wide[names.ENGINE_STEPS]] == [110.0, 120.0]
