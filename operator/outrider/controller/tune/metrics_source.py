"""Which source of metrics the settings ask for. A new one is added here and is one file of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing

from outrider.controller.fleet import Fleet
from outrider.controller.settings import MetricsSourceKind, Settings
from outrider.telemetry.pod_scrape import PodScrapeSource, Target
from outrider.telemetry.prometheus import PrometheusSettings, PrometheusSource
from outrider.telemetry.series import PodKey
from outrider.telemetry.source import MetricsSource
from outrider.transport import PodHttp

PODS_AT_ONCE = 450
"""Pods that one tick measures in time: 300 models of three pods took a tick of 4 s on two shared cores."""


@asynccontextmanager
async def open_source(settings: Settings, fleet: Fleet, http: PodHttp) -> AsyncIterator[MetricsSource]:
    """The source, closed at the end. http: stays open."""
    match settings.metrics_source:
        case MetricsSourceKind.PROMETHEUS:
            prometheus = PrometheusSource(
                _prometheus(settings), lambda: _models(fleet), lambda: _with_latency_targets(fleet)
            )
            with closing(prometheus) as source:
                yield source
        case MetricsSourceKind.POD_SCRAPE:
            scrapes = PodScrapeSource(lambda: _targets(fleet), http=http)
            try:
                yield scrapes
            finally:
                await scrapes.stop()


def _prometheus(settings: Settings) -> PrometheusSettings:
    return PrometheusSettings(
        url=settings.prometheus_url,
        timeout_seconds=settings.prometheus_timeout_seconds,
        bearer_token_file=settings.prometheus_token_file,
        username=settings.prometheus_username,
        password_file=settings.prometheus_password_file,
        ca_file=settings.prometheus_ca_file,
    )


def _models(fleet: Fleet) -> Mapping[PodKey, str]:
    return {
        PodKey(model.namespace, pod.name): model.name for model in fleet.tuned_models() for pod in model.pods
    }


def _with_latency_targets(fleet: Fleet) -> frozenset[PodKey]:
    return frozenset(
        PodKey(model.namespace, pod.name)
        for model in fleet.tuned_models()
        if model.targets
        for pod in model.pods
    )


def _targets(fleet: Fleet) -> Sequence[Target]:
    return [
        Target(PodKey(model.namespace, pod.name), pod.address.url, histograms=bool(model.targets))
        for model in fleet.tuned_models()
        for pod in model.pods
    ]
