"""Where a Service leads a client."""

from __future__ import annotations

import pytest

from tests.cluster.kubectl import Object
from tests.faults.client import endpoints_of


def pod(address: str, **labels: str) -> Object:
    container = {"name": "engine", "ports": [{"name": "http", "containerPort": 8000}]}
    return {
        "metadata": {"labels": labels},
        "spec": {"containers": [container]},
        "status": {"podIP": address},
    }


@pytest.mark.parametrize("target", ["http", 8000])
def test_a_service_leads_to_the_ready_pods_that_it_selects(target: str | int) -> None:
    service = {"spec": {"selector": {"model": "m"}, "ports": [{"targetPort": target}]}}
    ready = {"a": pod("10.0.0.1", model="m", more="x"), "b": pod("10.0.0.2", model="other")}
    assert endpoints_of(service, ready) == ["10.0.0.1:8000"]


def test_no_service_leads_nowhere() -> None:
    assert endpoints_of(None, {"a": pod("10.0.0.1")}) == []
