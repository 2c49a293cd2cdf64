"""Asking the engines themselves."""

from __future__ import annotations

import asyncio
import gzip

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api.reasons import MetricsReason
from outrider.runtimes.metrics import PLUGIN_CELLS, CellCounter, CellSeries
from outrider.runtimes.vllm import metrics as names
from outrider.telemetry.page import Reading, Readings, read_text
from outrider.telemetry.pod_scrape import PodScrapeSource, ScrapeSettings, Target
from outrider.telemetry.series import PodKey, Sample, Unreadable
from outrider.telemetry.source import EnginesUnreachable
from outrider.telemetry.windows import build_window
from outrider.tuning.observe.window import Window
from tests.unit.telemetry.engine_pages import A, Answer, B, Engines, page, readable, text, usable
from tests.unit.telemetry.factories import Counters, PluginCounters, exposition
from tests.unit.transport.played import played

STEPS = PLUGIN_CELLS[CellCounter.STEPS]


def failing(_: httpx.Request) -> httpx.Response:
    raise ConnectionResetError("refused")


async def test_each_fetch_adds_a_sample_at_the_time_of_asking() -> None:
    engines = Engines(a=text(100))
    async with engines.source() as source:
        await source.fetch(60)
        engines.now, engines.answers["a"] = 110.0, text(300)
        series = readable(await source.fetch(60), A)
    assert engines.asked == ["http://a:8000/metrics"] * 2
    assert series[names.ENGINE_STEPS] == (Sample(100.0, 100.0), Sample(110.0, 300.0))
    assert series[CellSeries(STEPS, 7, 3)] == (
        Sample(100.0, 100.0),
        Sample(110.0, 300.0),
    )


async def test_a_resting_pod_is_not_asked_and_keeps_its_samples() -> None:
    engines = Engines(a=text(100), b=text(100))
    async with engines.source() as source:
        await source.fetch(60)
        engines.now, engines.answers["a"] = 110.0, text(200)
        assert set(await source.fetch(60, resting={A})) == {B}
        engines.now, engines.answers["a"] = 120.0, text(300)
        series = readable(await source.fetch(60), A)
    assert engines.asked.count("http://a:8000/metrics") == 2
    assert series[names.ENGINE_STEPS] == (Sample(100.0, 100.0), Sample(120.0, 300.0))


async def test_two_fetches_make_a_window() -> None:
    engines = Engines(a=text(100))
    async with engines.source() as source:
        await source.fetch(60)
        engines.now, engines.answers["a"] = 110.0, text(300)
        series = (await source.fetch(60))[A]
    found = build_window(A, series, dialect=names.DIALECT, since=0, until=110, max_age_seconds=30)
    assert isinstance(found, Window)
    assert (found.engine_steps, found.cells[0].steps, found.seconds) == (200, 200, 10)


async def test_only_one_pod_of_a_model_needs_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def counted(page: str, known: Readings, *, histograms: bool) -> Readings:
        parsed.append(page)
        return read_text(page, known, histograms=histograms)

    monkeypatch.setattr("outrider.telemetry.pod_scrape.read_text", counted)
    engines = Engines(a=text(100))
    async with engines.source() as source:
        await source.fetch(60)
        engines.answers["b"] = text(300)
        series = readable(await source.fetch(60), B)
    assert len(parsed) == 1
    assert series[names.ENGINE_STEPS] == (Sample(100.0, 300.0),)


async def test_a_pod_with_another_series_is_parsed_and_read_right() -> None:
    engines = Engines(a=text(100))
    async with engines.source() as source:
        await source.fetch(60)
        body = exposition(Counters().ran(steps=300), PluginCounters().ran(steps=300))
        engines.answers["b"] = page(body + b"vllm:kv_cache_usage_perc 0.5\n")
        series = readable(await source.fetch(60), B)
    assert series[names.KV_USAGE] == (Sample(100.0, 0.5),)
    assert series[names.ENGINE_STEPS] == (Sample(100.0, 300.0),)


async def test_samples_beyond_the_lookback_are_left_out() -> None:
    engines = Engines(a=text(100))
    async with engines.source() as source:
        for engines.now in (100.0, 110.0, 120.0):
            series = readable(await source.fetch(15), A)
    assert [sample.at for sample in series[names.ENGINE_STEPS]] == [110.0, 120.0]


async def test_what_is_kept_of_a_pod_is_bounded() -> None:
    engines = Engines(a=text(100))
    async with engines.source() as source:
        for _ in range(100):
            engines.now += 1
            series = readable(await source.fetch(1e6), A)
    assert len(series[names.ENGINE_STEPS]) == 8


async def test_a_pod_that_is_gone_is_forgotten() -> None:
    engines = Engines(a=text(), b=text())
    async with engines.source() as source:
        await source.fetch(60)
        del engines.answers["b"]
        assert set(await source.fetch(60)) == {A}


async def test_a_pod_that_does_not_answer_does_not_hold_up_the_others() -> None:
    engines = Engines(a=failing, b=text())
    async with engines.source() as source:
        found = await source.fetch(60)
    assert (found[A], usable(found)) == (Unreadable("ConnectionResetError: refused"), {B})


async def test_a_pod_that_falls_silent_keeps_its_old_samples_which_grow_stale() -> None:
    engines = Engines(a=text(), b=text())
    async with engines.source() as source:
        await source.fetch(60)
        engines.now, engines.answers["a"] = 110.0, failing
        series = readable(await source.fetch(60), A)
    assert [sample.at for sample in series[names.ENGINE_STEPS]] == [100.0]


async def test_a_pod_that_is_silent_is_unreadable_with_the_time_that_it_had() -> None:
    class Silent(Engines):
        async def handle(self, request: httpx.Request) -> httpx.Response:
            if request.url.host == "a":
                await asyncio.Event().wait()
            return await super().handle(request)

    engines = Silent(a=text(), b=text())
    async with engines.source(timeout_seconds=0.05) as source:
        found = await source.fetch(60)
    assert (found[A], usable(found)) == (Unreadable("no complete answer within 0.05 s"), {B})


async def test_silent_pods_of_one_namespace_keep_only_their_own_waiting() -> None:
    """In rounds of at most twice the timeout."""
    silent = [Target(PodKey("tenant", f"p{index}"), f"http://silent{index}") for index in range(30)]
    well = [Target(PodKey("shop", "a"), "http://a"), Target(PodKey("bank", "b"), "http://b")]

    async def handle(request: httpx.Request) -> httpx.Response:
        if request.url.host.startswith("silent"):
            await asyncio.Event().wait()
        return text()(request)

    source = PodScrapeSource(
        lambda: [*silent, *well],
        ScrapeSettings(timeout_seconds=1.0, concurrency=4),
        http=played(handle),
    )
    async with source:
        found = await source.fetch(60)
    assert usable(found) == {target.pod for target in well}
    told = [found[target.pod] for target in silent]
    asked = told.count(Unreadable("no complete answer within 1 s"))
    assert 2 <= asked <= 4
    waited = "not asked within 1 s, since other pods of its namespace did not answer"
    assert told.count(Unreadable(waited)) == 30 - asked


async def test_when_no_pod_answers_the_source_is_unreachable() -> None:
    engines = Engines(a=failing, b=failing)
    async with engines.source() as source:
        with pytest.raises(EnginesUnreachable, match="default/a: ConnectionResetError: refused") as caught:
            await source.fetch(60)
    assert caught.value.reason is MetricsReason.ENGINES_UNREACHABLE
    assert "network policies" in caught.value.action


async def test_without_pods_there_is_nothing_to_ask() -> None:
    async with Engines().source() as source:
        assert await source.fetch(60) == {}


@pytest.mark.parametrize(
    "answer",
    [
        page(b"", 500),
        page(b"not found", 404),
        page(b"", 302, Location="http://elsewhere/metrics"),
        page(b"x" * 100_000),
        page(b"\xff\xfe"),
        page(b'vllm:generation_tokens_total{engine="0"} many\n'),
        page(b'vllm:generation_tokens_total{engine="0\n'),
        page(b'vllm:generation_tokens_total{ ="0"} 1\n'),
        page(gzip.compress(exposition(Counters())), **{"Content-Encoding": "gzip"}),  # type: ignore[arg-type]
    ],
    ids=range(9),
)
async def test_an_answer_that_cannot_be_used_is_no_sample(answer: Answer) -> None:
    engines = Engines(a=answer, b=text())
    async with engines.source(max_response_bytes=50_000) as source:
        found = await source.fetch(60)
    assert isinstance(found[A], Unreadable)
    assert usable(found) == {B}


async def test_no_more_pods_are_asked_at_once_than_allowed() -> None:
    busy = most = 0

    class Slow(Engines):
        async def handle(self, request: httpx.Request) -> httpx.Response:
            nonlocal busy, most
            busy += 1
            most = max(most, busy)
            answer = await super().handle(request)
            busy -= 1
            return answer

    engines = Slow(**{f"p{i}": text() for i in range(20)})
    async with engines.source(concurrency=3) as source:
        assert len(await source.fetch(60)) == 20
    assert most <= 3


def test_only_what_is_read_is_parsed() -> None:
    line = 'vllm:generation_tokens_total{engine="0"} 5'
    junk = f'# HELP x y\nsome_metric{{le="broken 1\n{line}\nvllm:generation_tokens_created 7\n'
    assert read_text(junk, {}) == {line: Reading(("0", ""), names.GENERATED_TOKENS, 5.0)}


def test_a_line_that_has_not_changed_is_taken_from_the_scrape_before() -> None:
    same, new = "vllm:generation_tokens_total 5", "vllm:num_requests_waiting 1"
    before = {same: None, "gone": None}
    found = read_text(f"{same}\n{new}\n", before)
    assert found == {same: None, new: Reading(("", ""), names.REQUESTS_WAITING, 1.0)}


def test_values_that_are_not_finite_are_of_no_use() -> None:
    found = read_text("vllm:generation_tokens_total NaN\nvllm:num_requests_waiting +Inf\n", {})
    assert set(found.values()) == {None}


def test_engines_of_one_pod_are_told_apart() -> None:
    body = 'vllm:generation_tokens_total{engine="0"} 5\nvllm:generation_tokens_total{engine="1"} 7\n'
    found = read_text(body, {}).values()
    assert [each.engine for each in found if isinstance(each, Reading)] == [("0", ""), ("1", "")]


TEXT = exposition(Counters().ran(), PluginCounters().ran()).decode()


@given(st.permutations(TEXT.splitlines()))
def test_the_order_of_lines_does_not_matter(lines: list[str]) -> None:
    assert read_text("\n".join(lines), {}) == read_text(TEXT, {})


async def test_samples_of_a_clock_that_was_ahead_are_dropped() -> None:
    engines = Engines(a=text(steps=1))
    async with engines.source() as source:
        for now in (100.0, 7300.0, 110.0):
            engines.now = now
            found = await source.fetch(60)
    series = found[A]
    assert not isinstance(series, Unreadable)
    assert [sample.at for sample in series[names.ENGINE_STEPS]] == [110.0]
