"""The settings name the source of metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.api.reasons import MetricsReason
from outrider.controller.settings import MetricsSourceKind, Settings
from outrider.controller.tune.metrics_source import open_source
from outrider.telemetry.pod_scrape import PodScrapeSource
from outrider.telemetry.prometheus import PrometheusSource
from outrider.telemetry.source import MetricsError
from outrider.transport import PodHttp
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.telemetry.factories import a_server, answering, authorization_of
from tests.unit.tuning_loop.factories import World, a_model


async def test_prometheus_is_the_default() -> None:
    async with open_source(Settings(), World(), PodHttp()) as source:
        assert isinstance(source, PrometheusSource)


async def test_a_password_reaches_prometheus(tmp_path: Path) -> None:
    password, seen = tmp_path / "password", list[str | None]()
    password.write_text("secret")
    with a_server(authorization_of(seen)) as url:
        settings = Settings(prometheus_url=url, prometheus_username="u", prometheus_password_file=password)
        async with open_source(settings, World(), PodHttp()) as source:
            await source.fetch(60)
    assert seen[0] is not None
    assert seen[0].startswith("Basic ")


async def test_every_ready_pod_is_scraped_where_there_is_no_prometheus() -> None:
    text = "vllm:generation_tokens_total 5\n"
    engines = (FakeEngine("a", metrics=text), FakeEngine("b", metrics=text))
    async with PodHttp() as http, serving(*engines) as pods:
        settings = Settings(metrics_source=MetricsSourceKind.POD_SCRAPE)
        async with open_source(settings, World([a_model(*pods)]), http) as source:
            assert isinstance(source, PodScrapeSource)
            found = await source.fetch(60)
    assert found.keys() == {("default", "a"), ("default", "b")}


async def test_an_error_of_a_source_says_what_to_do() -> None:
    with a_server(answering(b"", status=500)) as url:
        async with open_source(Settings(prometheus_url=url), World(), PodHttp()) as source:
            with pytest.raises(MetricsError) as caught:
                await source.fetch(60)
    assert caught.value.reason is MetricsReason.PROMETHEUS_ERROR
    assert caught.value.action
