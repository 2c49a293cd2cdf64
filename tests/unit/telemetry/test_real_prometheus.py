"""The Prometheus source against the real server, scraping a small exporter."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from outrider.telemetry import names
from outrider.telemetry.prometheus import PrometheusSettings, PrometheusSource
from outrider.telemetry.series import PodKey, PodSeries
from outrider.telemetry.source import MetricsError, SourceRefused
from outrider.telemetry.windows import build_window
from outrider.tuning.window import Window
from tests.unit.telemetry.factories import ALL_COUNTERS, Counters, a_server

BINARY = shutil.which("prometheus")
POD = PodKey("default", "tiny-0")
CONFIG = """
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs:
- job_name: engines
  static_configs:
  - targets: ["{target}"]
    labels: {{namespace: default, pod: tiny-0, outrider_dev_model: tiny}}
- job_name: others
  static_configs:
  - targets: ["{target}"]
    labels: {{namespace: default, pod: other-0}}
"""

pytestmark = pytest.mark.skipif(BINARY is None, reason="no prometheus binary on the PATH")


def exposition(counters: Counters) -> bytes:
    lines = []
    for name in ALL_COUNTERS:
        base, _, position = name.removesuffix("}").partition("{")
        extra = f',position="{position}"' if position else ""
        extra += ',source="local_compute"' if base == names.PROMPT_TOKENS else ""
        lines.append(f'{base}{{engine="0",model_name="tiny"{extra}}} {counters.values[name]}')
    lines.append(f'{names.PROMPT_TOKENS}{{engine="0",model_name="tiny",source="local_cache_hit"}} 7')
    lines.append("some_other_metric 1")
    return "\n".join([*lines, ""]).encode()


def exporter(request: BaseHTTPRequestHandler) -> None:
    """Ten steps of 20 ms per 200 ms, counted by the clock, so that two jobs may scrape it."""
    ticks = int(time.monotonic() * 5)
    body = exposition(Counters().ran(steps=10 * ticks, batch=8, k=3, accepted=1.5, step_seconds=0.02))
    request.send_response(200)
    request.send_header("Content-Type", "text/plain; version=0.0.4")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def a_free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def a_prometheus(folder: Path, target: str) -> Iterator[str]:
    config, port = folder / "prometheus.yml", a_free_port()
    config.write_text(CONFIG.format(target=target.removeprefix("http://")))
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
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            found = (await source.fetch(60)).get(pod, {})
        except MetricsError:
            found = {}
        if len(found.get(names.GENERATED_TOKENS, ())) >= samples:
            return found
        await asyncio.sleep(0.2)
    raise AssertionError(f"no {samples} samples of {pod} within 30 s")


async def test_windows_come_from_what_a_real_prometheus_scraped(tmp_path: Path) -> None:
    with a_server(exporter) as target, a_prometheus(tmp_path, target) as url:
        source = PrometheusSource(PrometheusSettings(url=url))
        series = await series_of(source, POD, samples=6)
        everything = await source.fetch(60)
    assert set(everything) == {POD}
    assert set(series) == set(ALL_COUNTERS)
    window = build_window(POD, series, since=0, until=time.time(), max_age_seconds=30)
    assert isinstance(window, Window), window
    assert window.batch_size == pytest.approx(8)
    assert window.mean_k == pytest.approx(3)
    assert window.goodput == pytest.approx(8 * 2.5 / 0.02)
    assert window.prefill_tokens == 0


async def test_a_query_that_prometheus_refuses_is_an_error(tmp_path: Path) -> None:
    with a_server(exporter) as target, a_prometheus(tmp_path, target) as url:
        source = PrometheusSource(PrometheusSettings(url=url))
        await series_of(source, POD, samples=1)
        with pytest.raises(SourceRefused, match="bad_data"):
            await source.fetch(0)
