"""How often Prometheus scrapes and the operator ticks: as in production for the run, and back afterwards."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import yaml

from examples.kit.cluster import PROMETHEUS as PROMETHEUS_PATH
from examples.kit.cluster import Cluster, Place, RunFailed, output
from examples.kit.proxy import api_proxy
from outrider.cluster.resources import CONFIG_MAPS
from outrider.telemetry.prometheus import PrometheusSettings, PrometheusSource

PROMETHEUS = ("monitoring", "prometheus")
RELEASE = ("outrider-system", "outrider")
SCRAPE_MANAGER, TICK_MANAGER = "kubectl", "helm"
"""The managers by which the set-up applies both; others would make it conflict later."""
TICK_VARIABLE = "OUTRIDER_TUNING_INTERVAL_SECONDS"


def with_scrapes(configuration: str, seconds: float) -> str:
    """The same configuration with another global scrape interval.

    Raises:
        ValueError: it has no global scrape interval or timeout.
    """
    timeout = min(0.9 * seconds, 5.0)
    for name, value in (("scrape_interval", seconds), ("scrape_timeout", timeout)):
        configuration, found = re.subn(
            rf"\b{name}: *\w+", f"{name}: {round(1000 * value)}ms", configuration, count=1
        )
        if not found:
            raise ValueError(f"Prometheus' configuration has no global {name}")
    return configuration


@asynccontextmanager
async def paced(
    cluster: Cluster, *, scrape_seconds: float, tick_seconds: float, memory: Path
) -> AsyncIterator[None]:
    """Hold this pace inside the block.

    memory: file with Prometheus' configuration before, so that a run after a killed one puts that back.
    """
    if not memory.exists():
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(await _configuration(cluster), encoding="utf-8")
    configuration, deployment = memory.read_text(encoding="utf-8"), await _deployment(cluster)
    try:
        await _set_scrapes(cluster, with_scrapes(configuration, scrape_seconds))
        await _set_operator(cluster, with_tick(deployment, tick_seconds))
        yield
    finally:
        await asyncio.shield(_put_back(cluster, configuration, deployment))
        memory.unlink()


async def _put_back(cluster: Cluster, configuration: str, deployment: dict[str, Any]) -> None:
    await _set_scrapes(cluster, configuration)
    await _set_operator(cluster, deployment)


async def _configuration(cluster: Cluster) -> str:
    found = await cluster.client.get(CONFIG_MAPS, *PROMETHEUS)
    if found is None:
        raise RunFailed("no ConfigMap monitoring/prometheus; use --keep-pace with another Prometheus")
    return str(found["data"]["prometheus.yml"])


async def _set_scrapes(cluster: Cluster, text: str) -> None:
    if text == await _configuration(cluster):
        return
    namespace, name = PROMETHEUS
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"prometheus.yml": text},
    }
    await cluster.client.apply(manifest, manager=SCRAPE_MANAGER)
    # A mounted configuration that changed is read at the next start.
    await cluster.kubectl("-n", namespace, "rollout", "restart", f"deployment/{name}")
    await cluster.kubectl("-n", namespace, "rollout", "status", f"deployment/{name}", "--timeout", "120s")


async def _deployment(cluster: Cluster) -> dict[str, Any]:
    """The operator's Deployment as Helm applied it. The chart of this checkout may be another one."""
    namespace, name = RELEASE
    place = cluster.place
    flags = [f"--kubeconfig={place.kubeconfig}"] if place.kubeconfig else []
    flags += [f"--kube-context={place.context}"] if place.context else []
    manifests = yaml.safe_load_all(
        await output("helm", "get", "manifest", name, "--namespace", namespace, *flags)
    )
    return next(one for one in manifests if one and one["kind"] == "Deployment")


def with_tick(deployment: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The same Deployment with another interval of the tuning loop.

    Raises:
        ValueError: it does not set one.
    """
    found = copy.deepcopy(deployment)
    variables = found["spec"]["template"]["spec"]["containers"][0].get("env", [])
    tick = next((one for one in variables if one["name"] == TICK_VARIABLE), None)
    if tick is None:
        raise ValueError(f"the operator's Deployment does not set {TICK_VARIABLE}")
    tick["value"] = f"{seconds:g}"
    return found


async def _set_operator(cluster: Cluster, deployment: dict[str, Any]) -> None:
    namespace, name = RELEASE
    metadata = {**deployment["metadata"], "namespace": namespace}
    await cluster.client.apply({**deployment, "metadata": metadata}, manager=TICK_MANAGER)
    await cluster.kubectl("-n", namespace, "rollout", "status", f"deployment/{name}", "--timeout", "180s")


@asynccontextmanager
async def prometheus(place: Place) -> AsyncIterator[PrometheusSource]:
    """The operator's own metrics source, through the API server, so that it outlives a restart."""
    async with api_proxy(place) as url:
        with closing(PrometheusSource(PrometheusSettings(url + PROMETHEUS_PATH))) as source:
            yield source
