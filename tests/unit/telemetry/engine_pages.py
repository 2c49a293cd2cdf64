"""Engines whose page of metrics is scraped."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import httpx

from outrider.telemetry.pod_scrape import PodScrapeSource, ScrapeSettings, Target
from outrider.telemetry.series import PodKey, PodMetrics, PodSeries, Unreadable
from tests.unit.telemetry.factories import Counters, PluginCounters, exposition
from tests.unit.transport.played import played

A, B = PodKey("default", "a"), PodKey("default", "b")
Answer = Callable[[httpx.Request], httpx.Response]


class Engines:
    """Engines by host name, and a clock that tests move."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.now = 100.0

    async def handle(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url))
        return self.answers[request.url.host](request)

    def source(self, **settings: float) -> PodScrapeSource:
        return PodScrapeSource(
            lambda: [Target(PodKey("default", host), f"http://{host}:8000") for host in self.answers],
            ScrapeSettings(**settings),  # type: ignore[arg-type]
            clock=lambda: self.now,
            http=played(self.handle),
        )


def text(steps: float = 0, *, plugin: bool = True) -> Answer:
    run = PluginCounters().ran(steps=steps) if plugin else None
    body = exposition(Counters().ran(steps=steps), run)
    return page(body)


def page(body: bytes, status: int = 200, **headers: str) -> Answer:
    """Not read before the source asks for it, as on the wire."""
    return lambda _: httpx.Response(status, headers=headers, stream=httpx.ByteStream(body))


def readable(found: Mapping[PodKey, PodMetrics], pod: PodKey) -> PodSeries:
    metrics = found[pod]
    assert not isinstance(metrics, Unreadable), metrics
    return metrics


def usable(found: Mapping[PodKey, PodMetrics]) -> set[PodKey]:
    return {pod for pod, metrics in found.items() if not isinstance(metrics, Unreadable)}
