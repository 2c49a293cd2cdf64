"""``outrider doctor`` against the cluster of the tests, with an engine in it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.kubectl import Object, has_condition, wait_for
from tests.cluster.models import deploying, model, read_twin
from tests.cluster.outrider_cli import outrider

pytestmark = [pytest.mark.engine("twin", "starts")]

NAME = "doctor-command"


@pytest.fixture(scope="module", autouse=True)
def measured() -> Iterator[None]:
    """One model that Prometheus knows."""
    with deploying() as deploy:
        deploy(read_twin(), NAME)
        wait_for(
            "Prometheus has samples",
            lambda: model(NAME),
            lambda seen: has_condition(seen, "MetricsAvailable", "True"),
            seconds=300,
        )
        yield


def told() -> dict[str, set[str]]:
    """Levels by subject."""
    levels: dict[str, set[str]] = {}
    for each in outrider("doctor", "-n", "default", "--json").told["findings"]:
        levels.setdefault(each["subject"], set()).add(each["level"])
    return levels


@pytest.mark.parametrize(
    "subject", ["CRD", "operator", "leader", "its rights", "your rights", "GPUs", "clocks"]
)
def test_the_cluster_of_the_tests_is_fine(subject: str) -> None:
    assert told()[subject] == {"fine"}


def test_prometheus_was_asked_through_the_api_server_about_every_engine() -> None:
    """Models of other tests come and go, so only this one is asked about."""

    def look() -> Object | None:
        found = outrider("doctor", "-n", "default", "--json").told["findings"]
        about = [each for each in found if each["subject"] in ("Prometheus", "plugin")]
        return {
            "status": [
                each["message"] for each in about if each["level"] == "bad" and NAME in each["message"]
            ]
        }

    seen = wait_for("nothing is said of it", look, lambda seen: seen == {"status": []}, seconds=60)
    assert seen is not None
    assert "Prometheus" in told()
    assert "unseen" not in told()["Prometheus"]
