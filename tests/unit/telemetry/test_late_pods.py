"""Pods that do not answer while others do: a fetch does not wait for them, and their answers are not lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import httpx
import pytest

from outrider.runtimes.vllm import metrics as names
from outrider.telemetry.pod_scrape import PodScrapeSource, ScrapeSettings, Target
from outrider.telemetry.series import PodKey, PodMetrics, Unreadable
from outrider.telemetry.source import EnginesUnreachable
from tests.unit.telemetry.engine_pages import A, B, Engines, text, usable
from tests.unit.transport.played import played

SHORT_SECONDS, LONGER_SECONDS = 0.1, 0.15
LONG_SECONDS = 3600.0


class Late(Engines):
    """The engine ``a`` answers when the test lets it."""

    def __init__(self, *others: str) -> None:
        super().__init__(**dict.fromkeys(["a", *others], text(100)))
        self.answers_now = asyncio.Event()

    async def handle(self, request: httpx.Request) -> httpx.Response:
        answer = await super().handle(request)
        if request.url.host == "a":
            await self.answers_now.wait()
        return answer

    @property
    def hosts(self) -> list[str]:
        return [httpx.URL(url).host for url in self.asked]

    async def answered(self, source: PodScrapeSource) -> None:
        """Let `a` answer what it was asked."""
        self.answers_now.set()
        await source._rounds.ended()
        self.answers_now.clear()


def times(found: PodMetrics) -> list[float]:
    assert not isinstance(found, Unreadable)
    return [sample.at for sample in found[names.ENGINE_STEPS]]


async def test_a_silent_pod_has_one_request_and_delays_no_fetch() -> None:
    engines = Late("b")
    async with engines.source(timeout_seconds=LONG_SECONDS, patience_seconds=SHORT_SECONDS) as source:
        for engines.now in (100.0, 110.0, 120.0):
            async with asyncio.timeout(60):
                found = await source.fetch(60)
    assert (engines.hosts.count("a"), times(found[B])) == (1, [100.0, 110.0, 120.0])
    assert found[A] == Unreadable(f"no complete answer within {SHORT_SECONDS:g} s")


async def test_a_late_answer_counts_at_the_next_fetch_with_the_time_of_asking() -> None:
    engines = Late("b")
    async with engines.source(patience_seconds=SHORT_SECONDS) as source:
        for engines.now in (100.0, 110.0, 120.0):
            found = await source.fetch(60)
            await engines.answered(source)
        engines.now = 130.0
        found = await source.fetch(60)
    assert times(found[A]) == [100.0, 110.0, 120.0]


async def test_a_pod_that_answers_in_time_again_is_waited_for_again() -> None:
    engines = Late("b")
    async with engines.source(timeout_seconds=LONG_SECONDS, patience_seconds=SHORT_SECONDS) as source:
        await source.fetch(60)
        engines.answers_now.set()
        await source._rounds.ended()
        for engines.now in (110.0, 120.0):
            found = await source.fetch(60)
    assert times(found[A]) == [100.0, 110.0, 120.0]


async def test_one_slow_pod_alone_is_unreachable_at_its_first_fetch_only() -> None:
    engines = Late()
    async with engines.source(patience_seconds=SHORT_SECONDS) as source:
        with pytest.raises(EnginesUnreachable, match="no complete answer"):
            await source.fetch(60)
        for engines.now in (110.0, 120.0):
            await engines.answered(source)
            found = await source.fetch(60)
    assert times(found[A]) == [100.0, 110.0]


async def test_silent_pods_take_no_requests_from_answering_ones_of_their_namespace() -> None:
    """Once they are late. Before, a pod behind them may wait for its turn."""
    silent = [Target(PodKey("tenant", f"p{index}"), f"http://silent{index}") for index in range(50)]
    well = Target(PodKey("tenant", "a"), "http://a")

    async def handle(request: httpx.Request) -> httpx.Response:
        if request.url.host.startswith("silent"):
            await asyncio.Event().wait()
        return text()(request)

    settings = ScrapeSettings(timeout_seconds=LONGER_SECONDS, patience_seconds=SHORT_SECONDS, concurrency=10)
    now = 100.0
    source = PodScrapeSource(lambda: [*silent, well], settings, clock=lambda: now, http=played(handle))
    async with source, asyncio.timeout(60):
        answered = False
        while not answered:
            with suppress(EnginesUnreachable):
                answered = usable(await source.fetch(60)) == {well.pod}
            await source._rounds.ended()
        for now in (110.0, 120.0):
            found = await source.fetch(60)
            assert times(found[well.pod])[-1] == now
            await source._rounds.ended()


async def test_among_late_pods_those_that_waited_longest_come_first() -> None:
    targets = [Target(PodKey("tenant", f"p{index}"), f"http://p{index}") for index in range(6)]
    asked: list[str] = []

    async def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        await asyncio.Event().wait()
        raise AssertionError("it never answers")

    settings = ScrapeSettings(timeout_seconds=LONGER_SECONDS, patience_seconds=SHORT_SECONDS, concurrency=2)
    now = 100.0
    source = PodScrapeSource(lambda: targets, settings, clock=lambda: now, http=played(handle))
    async with source:
        for _ in range(8):
            now += 10
            with pytest.raises(EnginesUnreachable):
                await source.fetch(60)
            await source._rounds.ended()
    assert {f"p{index}" for index in range(6)} == set(asked)
