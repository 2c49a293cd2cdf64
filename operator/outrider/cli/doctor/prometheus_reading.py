"""Asks the operator's Prometheus for the series of engines: through the API server, or by its address."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
from pydantic import TypeAdapter, ValidationError

from outrider.cli.doctor.evidence import CannotLook, Metrics, Target
from outrider.cluster.client import ClusterClient
from outrider.cluster.errors import Unavailable
from outrider.runtimes import dialects

_IN_CLUSTER = re.compile(r"(?P<service>[a-z0-9-]+)\.(?P<namespace>[a-z0-9-]+)(\.svc(\.cluster\.local)?)?\.?")
_QUERY = "/api/v1/query"
_TIMEOUT_SECONDS = 10.0

_TARGETS = "count by (namespace, pod, outrider_dev_model, job) ({})"
_SAMPLES = "min by (namespace, pod) (count_over_time({}[1m]))"
_LIVE = "min by (namespace, pod) ({})"


@dataclass(frozen=True, slots=True)
class _Row:
    metric: dict[str, str]
    value: tuple[float, str]


@dataclass(frozen=True, slots=True)
class _Data:
    result: tuple[_Row, ...]


@dataclass(frozen=True, slots=True)
class _Answer:
    data: _Data


_ANSWER = TypeAdapter(_Answer)


async def read_metrics(cluster: ClusterClient, url: str) -> Metrics:
    """The series of engines that Prometheus has now.

    Raises:
        ClusterError: no right to ask through the API server, or no answer.
        CannotLook: the address belongs to no Service, and this machine gets no answer of a Prometheus.
    """
    alive = [dialect.alive for dialect in dialects().all]
    tunable = [dialect.live_tuning for dialect in dialects().all if dialect.live_tuning is not None]
    targets = await _ask(cluster, url, _any_of(_TARGETS, alive))
    samples = await _ask(cluster, url, _any_of(_SAMPLES, alive))
    live = await _ask(cluster, url, _any_of(_LIVE, tunable))
    return Metrics(
        targets=frozenset(
            Target(*_pod(row.metric), row.metric.get("outrider_dev_model", ""), row.metric.get("job", ""))
            for row in targets
        ),
        samples_per_minute={_pod(row.metric): float(row.value[1]) for row in samples},
        live_tuning={_pod(row.metric): float(row.value[1]) > 0 for row in live},
    )


def _any_of(query: str, metrics: Iterable[str]) -> str:
    """Return the query for the metrics of all runtimes; a pod has those of one."""
    return " or ".join(query.format(metric) for metric in metrics)


def _pod(metric: Mapping[str, str]) -> tuple[str, str]:
    return metric.get("namespace", ""), metric.get("pod", "")


async def _ask(cluster: ClusterClient, url: str, query: str) -> tuple[_Row, ...]:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise Unavailable(str(error)) from error
    service = _IN_CLUSTER.fullmatch(parts.hostname or "")
    if service is None:
        return await _ask_directly(url, query)
    name = f"{parts.scheme}:{service['service']}:{port}"
    path = parts.path.rstrip("/") + _QUERY
    answer = await cluster.get_through(service["namespace"], name, path, {"query": query})
    try:
        return _ANSWER.validate_python(answer).data.result
    except ValidationError as error:
        raise Unavailable(_not_prometheus(error)) from error


async def _ask_directly(url: str, query: str) -> tuple[_Row, ...]:
    """Ask from this machine, whose failure says nothing about the operator.

    The operator may be in another network, and has its own credentials and authority of certificates.
    """
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as http:
            response = await http.get(url.rstrip("/") + _QUERY, params={"query": query})
            response.raise_for_status()
            return _ANSWER.validate_python(response.json()).data.result
    except ValidationError as error:
        raise CannotLook(_from_here(url, _not_prometheus(error))) from error
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        # The client's message has a link on its second line, and has no text for some timeouts.
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise CannotLook(_from_here(url, first)) from error


def _from_here(url: str, why: str) -> str:
    lacks = "lacks the operator's network, credentials and certificates"
    return (
        f"this machine asked {url} in vain, because it {lacks}: {why}. "
        "The condition MetricsAvailable shows what the operator gets"
    )


def _not_prometheus(error: ValidationError) -> str:
    return f"the answer is not that of a Prometheus: {error.errors()[0]['msg']}"
