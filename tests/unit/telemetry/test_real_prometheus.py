"""The Prometheus source against the real server, scraping a small exporter."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from outrider.runtimes.vllm import metrics as names
from outrider.runtimes.vllm.metrics import DIALECT
from outrider.telemetry.pod_scrape import PodScrapeSource, Target
from outrider.telemetry.prometheus import PrometheusSettings, PrometheusSource
from outrider.telemetry.series import PodKey, PodSeries, Unreadable
from outrider.telemetry.source import MetricsError, SourceRefused
from outrider.telemetry.windows import build_window
from outrider.tuning.observe.window import Gap, Window
from tests.ports import free_port
from tests.unit.telemetry.factories import ALL_COUNTERS, Counters, PluginCounters, a_server, exposition

BINARY = shutil.which("prometheus")
POD, CHANGING = PodKey("default", "tiny-0"), PodKey("default", "tiny-1")
CONFIG = """
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs:
- job_name: engines
  sample_limit: 10000
  body_size_limit: 8MB
  static_configs:
  - targets: ["{steady}"]
    labels: {{namespace: default, pod: tiny-0, outrider_dev_model: tiny}}
  - targets: ["{changing}"]
    labels: {{namespace: default, pod: tiny-1, outrider_dev_model: tiny}}
- job_name: others
  static_configs:
  - targets: ["{steady}"]
    labels: {{namespace: default, pod: other-0}}
"""

pytestmark = pytest.mark.skipif(BINARY is None, reason="no prometheus binary on the PATH")


def exporter(request: BaseHTTPRequestHandler) -> None:
    """Ten steps of 20 ms per 200 ms, counted by the clock, so that two jobs may scrape it."""
    ticks = int(time.monotonic() * 5)
    body = exposition(Counters().ran(steps=10 * ticks, batch=8, k=3, accepted=1.5, step_seconds=0.02))
    request.send_response(200)
    request.send_header("Content-Type", "text/plain; version=0.0.4")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


@contextmanager
def a_prometheus(folder: Path, **targets: str) -> Iterator[str]:
    config, port = folder / "prometheus.yml", free_port()
    config.write_text(CONFIG.format(**{name: url.removeprefix("http://") for name, url in targets.items()}))
    command = [
        str(BINARY),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    process = subprocess.Popen(command)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


async def series_of(source: PrometheusSource, pod: PodKey, *, samples: int) -> PodSeries:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            found = (await source.fetch(60)).get(pod, {})
        except MetricsError:
            found = {}
        assert not isinstance(found, Unreadable), found
        if len(found.get(names.GENERATED_TOKENS, ())) >= samples:
            return found
        await asyncio.sleep(0.2)
    raise AssertionError(f"no {samples} samples of {pod} within 120 s")


@dataclass
class Exporter:
    """Serves one text until a test sets the next."""

    body: bytes

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "text/plain; version=0.0.4")
        request.send_header("Content-Length", str(len(self.body)))
        request.end_headers()
        request.wfile.write(self.body)


def two_texts() -> tuple[bytes, bytes]:
    """A pod before and after a load step and a change of K; K=1 is new."""
    counters, plugin = Counters().ran(steps=1000), PluginCounters().ran(steps=1000)
    later = counters.ran(steps=300).ran(steps=50, batch=30, k=1, accepted=0.7).prefilled(requests=3)
    later_plugin = plugin.ran(steps=300).ran(low=25, k=1, steps=50, batch=30, accepted=0.7)
    return exposition(counters, plugin), exposition(later, later_plugin.ran(k=None, steps=1))


@dataclass(frozen=True)
class Scraped:
    """A Prometheus and the page of `CHANGING`, which only one test changes."""

    url: str
    changing: Exporter
    changing_url: str


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """For all tests here: it takes five seconds until a new Prometheus scrapes."""
    page, _ = two_texts()
    changing, folder = Exporter(page), tmp_path_factory.mktemp("prometheus")
    with (
        a_server(exporter) as steady_url,
        a_server(changing) as changing_url,
        a_prometheus(folder, steady=steady_url, changing=changing_url) as url,
    ):
        yield Scraped(url, changing, changing_url)


async def test_windows_come_from_what_a_real_prometheus_scraped(scraped: Scraped) -> None:
    source = PrometheusSource(PrometheusSettings(url=scraped.url))
    series = await series_of(source, POD, samples=6)
    everything = await source.fetch(60)
    assert set(everything) == {POD, CHANGING}
    assert set(series) == set(ALL_COUNTERS)
    window = build_window(POD, series, dialect=DIALECT, since=0, until=time.time(), max_age_seconds=30)
    assert isinstance(window, Window), window
    assert window.batch_size == pytest.approx(8)
    assert window.mean_k == pytest.approx(3)
    assert window.goodput == pytest.approx(8 * 2.5 / 0.02)
    assert window.prefill_tokens == 0


def sums(window: Window | Gap) -> Window:
    """Without its times, and without what depends on how often it was scraped."""
    assert isinstance(window, Window), window
    return replace(window, started_at=0, ended_at=0, batch_low=None, batch_high=None)


async def test_both_sources_give_equal_windows_of_the_same_text(scraped: Scraped) -> None:
    _, after = two_texts()
    source = PrometheusSource(PrometheusSettings(url=scraped.url))
    async with PodScrapeSource(lambda: [Target(CHANGING, scraped.changing_url)]) as direct:
        await direct.fetch(60)
        known = await series_of(source, CHANGING, samples=2)
        scraped.changing.body = after
        pages = await direct.fetch(60)
    series = await series_of(source, CHANGING, samples=len(known[names.GENERATED_TOKENS]) + 3)
    by_prometheus = build_window(
        CHANGING, series, dialect=DIALECT, since=0, until=time.time(), max_age_seconds=30
    )
    by_scrape = build_window(
        CHANGING, pages[CHANGING], dialect=DIALECT, since=0, until=time.time(), max_age_seconds=30
    )
    assert sums(by_prometheus) == sums(by_scrape)
    assert [(c.low, c.num_speculative_tokens, c.steps) for c in sums(by_scrape).cells] == [
        (7, 3, 300),
        (25, 1, 50),
    ]


async def test_a_query_that_prometheus_refuses_is_an_error(scraped: Scraped) -> None:
    source = PrometheusSource(PrometheusSettings(url=scraped.url))
    await series_of(source, POD, samples=1)
    with pytest.raises(SourceRefused, match="bad_data"):
        await source.fetch(0)
