"""One tenant's pods together must not blind the tuner to those of another."""

from __future__ import annotations

import pytest

from outrider.telemetry import prometheus_round
from outrider.telemetry.prometheus import PrometheusSettings, PrometheusSource
from outrider.telemetry.series import PodKey, Unreadable
from tests.unit.telemetry.factories import a_row, a_server, an_answer, answering
from tests.unit.telemetry.fleet_server import FleetServer

LIMIT = 20_000  # bytes, for some 100 rows
SHOP = [PodKey("shop", f"m-{index}") for index in range(3)]
ENDINGS = "bcdfghjklmnpqrstvwxz2456789a"


@pytest.fixture(autouse=True)
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a fleet could have 1,000 series."""
    monkeypatch.setattr(prometheus_round, "MAX_SERIES_TOGETHER", 1000)


def useless_of(found: object) -> set[PodKey]:
    assert isinstance(found, dict)
    return {pod for pod, metrics in found.items() if isinstance(metrics, Unreadable)}


@pytest.mark.parametrize("tenant", ["aaa", "tenant"])
async def test_many_pods_of_middling_size_cost_their_own_namespace_only(tenant: str) -> None:
    hostile = [PodKey(tenant, f"h-{index}-{end}") for end in ENDINGS for index in range(3)]
    server = FleetServer({**dict.fromkeys(hostile, 60), **dict.fromkeys(SHOP, 5)})
    with a_server(server) as url:
        source = PrometheusSource(PrometheusSettings(url, max_response_bytes=LIMIT), server.models)
        for _ in range(3):
            found = await source.fetch(16)
            assert not useless_of(found) & set(SHOP)
        source.close()
    assert len(useless_of(found)) == len(hostile) - (1000 - 15) // 60


async def test_pods_that_are_too_large_by_themselves_cost_themselves_only() -> None:
    """Few series with labels so long that no count foretells it."""
    hostile = [PodKey("shop-neighbour", f"h-{index}") for index in range(10)]
    server = FleetServer({**dict.fromkeys(hostile, 300), **dict.fromkeys(SHOP, 5)}, dict.fromkeys(hostile, 2))
    with a_server(server) as url:
        source = PrometheusSource(PrometheusSettings(url, max_response_bytes=LIMIT), server.models)
        for _ in range(2):
            found = await source.fetch(16)
            assert useless_of(found) == set(hostile)
        server.asked.clear()
        await source.fetch(16)
        assert len(server.asked) <= 3, "of those that were too large one is tried again"
        server.rows = dict.fromkeys(server.rows, 5)
        for _ in hostile:
            found = await source.fetch(16)
        source.close()
    assert useless_of(found) == set()


async def test_a_stranger_with_the_name_of_a_pod_costs_the_namespace_that_it_lives_in() -> None:
    """The pod `m-0` of another namespace, which no model owns, is taken by a query for both namespaces."""
    stranger, neighbour = PodKey("tenant", "m-0"), PodKey("tenant", "own")
    server = FleetServer({**dict.fromkeys(SHOP, 5), stranger: 1000, neighbour: 5})
    owned = {pod: "m" for pod in server.rows if pod != stranger}
    with a_server(server) as url:
        source = PrometheusSource(PrometheusSettings(url, max_response_bytes=LIMIT), lambda: owned)
        for _ in range(2):
            found = await source.fetch(16)
            assert useless_of(found) == set()
            assert set(found) == set(owned)
        source.close()


async def test_pods_that_grow_between_two_fetches_do_not_take_more_than_their_share() -> None:
    hostile = [PodKey("tenant", f"h-{index}") for index in range(40)]
    server = FleetServer({**dict.fromkeys(hostile, 1), **dict.fromkeys(SHOP, 5)})
    with a_server(server) as url:
        source = PrometheusSource(PrometheusSettings(url, max_response_bytes=LIMIT), server.models)
        assert useless_of(await source.fetch(16)) == set()
        server.rows |= dict.fromkeys(hostile, 90)
        for _ in range(3):
            found = await source.fetch(16)
            read = set(found) - useless_of(found)
            assert read >= set(SHOP)
            assert sum(server.rows[pod] for pod in read) <= 1000
        source.close()


async def test_a_count_that_is_refused_does_not_hide_what_can_be_read() -> None:
    server = FleetServer({**dict.fromkeys(SHOP, 5), PodKey("tenant", "h"): 300})
    refusing = answering(b"", status=503)
    with a_server(lambda request: (refusing if "count+by" in request.path else server)(request)) as url:
        source = PrometheusSource(PrometheusSettings(url, max_response_bytes=LIMIT), server.models)
        found = await source.fetch(16)
        source.close()
    assert useless_of(found) == {PodKey("tenant", "h")}


async def test_rows_of_pods_that_were_not_asked_for_do_not_count() -> None:
    """A server that ignores what it is asked for."""
    rows = [a_row(pod="stranger")] * 50
    with a_server(answering(an_answer(*rows, a_row(pod="own")))) as url:
        own = PodKey("default", "own")
        source = PrometheusSource(PrometheusSettings(url), lambda: {own: "m"})
        assert set(await source.fetch(16)) == {own}
        source.close()
