"""Both sources of metrics on the same run of real engines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace

import pytest

from examples.kit.cluster import PROMETHEUS
from examples.kit.proxy import api_proxy
from outrider.runtimes.vllm import metrics as names
from outrider.runtimes.vllm.metrics import DIALECT
from outrider.telemetry.pod_scrape import PodScrapeSource, Target
from outrider.telemetry.prometheus import PrometheusSettings, PrometheusSource
from outrider.telemetry.series import PodKey, PodMetrics, Unreadable
from outrider.telemetry.windows import build_window
from outrider.tuning.observe.window import Window
from tests.cluster.engines import page, ready_pods
from tests.cluster.pair import NAME
from tests.cluster.sending import Sender

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.engine("twin", "starts")]

LOOKBACK = 60.0


async def test_prometheus_and_the_pods_themselves_give_equal_windows(pair: Sender) -> None:
    pods = ready_pods(NAME)
    keys = [PodKey("default", pod) for pod in pods]
    async with api_proxy(pair.cluster.place) as url:
        prometheus = PrometheusSource(PrometheusSettings(url + PROMETHEUS))
        targets = [Target(key, f"{url}/api/v1/namespaces/default/pods/{key.pod}:8000/proxy") for key in keys]
        async with PodScrapeSource(lambda: targets) as direct:
            began = await at_rest(pods, prometheus, keys)
            await direct.fetch(LOOKBACK)
            sent = await pair.send(streams=8, seconds=8)
            await at_rest(pods, prometheus, keys)
            scraped = await direct.fetch(LOOKBACK)
        collected = await prometheus.fetch(LOOKBACK)
        prometheus.close()
    counted = 0.0
    for key in keys:
        by_scrape, by_prometheus = sums(key, scraped, since=0), sums(key, collected, since=began)
        assert by_prometheus == by_scrape
        assert by_scrape.cells
        counted += by_scrape.decode_tokens + by_scrape.first_tokens
    print(f"{sent.tokens} tokens arrived, {counted:.0f} were counted")
    assert counted >= sent.tokens > 0


async def at_rest(pods: list[str], prometheus: PrometheusSource, keys: list[PodKey]) -> float:
    """No request runs, and Prometheus has seen that; answers a time since when it is so."""
    deadline = time.monotonic() + 120
    while any(found.running for pod in pods if (found := page(pod)) is not None):
        assert time.monotonic() < deadline, "requests still run"
        await asyncio.sleep(0.2)
    since = time.time()
    while any(
        newest(found.get(key)) <= since for found in [await prometheus.fetch(LOOKBACK)] for key in keys
    ):
        assert time.monotonic() < deadline, "Prometheus has no newer samples"
        await asyncio.sleep(0.5)
    return since


def newest(series: PodMetrics | None) -> float:
    """Time of the newest sample, in unix seconds."""
    if series is None or isinstance(series, Unreadable):
        return 0.0
    samples = series.get(names.GENERATED_TOKENS, ())
    return samples[-1].at if samples else 0.0


def sums(key: PodKey, measured: Mapping[PodKey, PodMetrics], *, since: float) -> Window:
    """Without its times, and without what depends on how often it was scraped."""
    window = build_window(
        key, measured.get(key), dialect=DIALECT, since=since, until=time.time(), max_age_seconds=LOOKBACK
    )
    assert isinstance(window, Window), window
    return replace(window, started_at=0, ended_at=0, batch_low=None, batch_high=None)
