"""The operator's own metrics source, reached from outside the cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from examples.kit.cluster import PROMETHEUS, Place
from examples.kit.proxy import api_proxy
from outrider.telemetry.prometheus import PrometheusSettings, PrometheusSource


@asynccontextmanager
async def prometheus(place: Place) -> AsyncIterator[PrometheusSource]:
    """Through the API server, so that it outlives a restart of Prometheus."""
    async with api_proxy(place) as url:
        with closing(PrometheusSource(PrometheusSettings(url + PROMETHEUS))) as source:
            yield source
