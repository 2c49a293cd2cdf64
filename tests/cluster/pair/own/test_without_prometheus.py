"""Prometheus stops for longer than a lease; another Prometheus sees the alert about it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from tests.cluster.alerts import wait_until_held
from tests.cluster.engines import ready_pods
from tests.cluster.kubectl import Object, has_condition, kubectl, namespace, operator_namespace, wait_for
from tests.cluster.models import speculation
from tests.cluster.own_prometheus import DEPLOYMENT
from tests.cluster.pair import NAME, TICK, TICKS, evidence, look, tune
from tests.cluster.pair.watching import changed_evidence, pages
from tests.cluster.sending import Sender

pytestmark = [pytest.mark.asyncio(loop_scope="package"), pytest.mark.engine("twin", "starts")]

AWAY = 75.0
"""Longer than a lease."""
ON_ITS_WAY = 3 * TICK
"""An earlier decision may still be in the status, or gone with the ConfigMap that the last test deleted."""
LEASE = 60.0
ALERT = "OutriderMetricsMissing"


async def test_without_prometheus_for_longer_than_a_lease_the_table_stays_and_requests_are_answered(
    pair: Sender,
) -> None:
    tune("Auto")
    pods, prometheus = ready_pods(NAME), (DEPLOYMENT, "-n", operator_namespace())
    async with pair.holding(streams=2) as came_to:
        await asyncio.to_thread(wait_for, "measured", look, metrics("True", "MetricsFresh"), seconds=TICKS)
        await asyncio.to_thread(wait_for, "decided", look, has_left_the_static_table, seconds=2 * TICKS)
        await asyncio.to_thread(wait_until_held, ALERT, seconds=TICKS, model=NAME)
        kubectl("scale", *prometheus, "--replicas=0")
        gone_at = time.monotonic()
        try:
            await asyncio.to_thread(
                wait_for, "said so", look, metrics("False", "PrometheusUnreachable"), seconds=60
            )
            missed = {"model_namespace": namespace(), "model": NAME}
            await asyncio.to_thread(wait_until_held, ALERT, missed, seconds=TICKS, model=NAME)
            tables, leases = set(), []
            while (away := time.monotonic() - gone_at) < AWAY:
                if away > ON_ITS_WAY:
                    tables.add(str(speculation(look()).get("scheduleSummary")))
                leases += [found.lease_seconds for found in pages(pods).values()]
                assert metrics("False")(look())
                await asyncio.sleep(2)
        finally:
            kubectl("scale", *prometheus, "--replicas=1")
        known = evidence()
        await asyncio.to_thread(wait_for, "measured again", look, metrics("True", "MetricsFresh"), seconds=90)
        assert await changed_evidence(known)
    print(f"tables {tables}, leases from {min(leases):.0f} to {max(leases):.0f} s; {came_to}")
    assert len(tables) == 1
    assert min(leases) > LEASE / 2
    assert [(sent.failed, sent.errors) for sent in came_to] == [(0, ())]


def has_left_the_static_table(seen: Object | None) -> bool:
    """Before its first decision the tuner may have one on its way that status does not know yet."""
    return str(speculation(seen).get("scheduleSummary")) not in ("None", "3:0,*:5")


def metrics(status: str, reason: str | None = None) -> Callable[[Object | None], bool]:
    """What MetricsAvailable says."""
    return lambda seen: has_condition(seen, "MetricsAvailable", status, reason)
