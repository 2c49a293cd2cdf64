"""``outrider doctor`` against the cluster of the tests, with an engine in it."""

from __future__ import annotations

import pytest

from tests.cluster.commands import NAME
from tests.cluster.kubectl import Object, wait_for
from tests.cluster.outrider_cli import outrider
from tests.cluster.own_operator import OWN

pytestmark = [pytest.mark.engine("twin", "starts")]


def findings() -> list[dict[str, str]]:
    """What is said. Operators of other tests, each with namespaces of its own, come and go: not of them."""
    told = outrider("doctor", "-n", "default", "--json").told["findings"]
    return [each for each in told if OWN not in each["message"]]


@pytest.fixture(scope="module")
def levels() -> dict[str, set[str]]:
    """By subject."""
    levels: dict[str, set[str]] = {}
    for each in findings():
        levels.setdefault(each["subject"], set()).add(each["level"])
    return levels


@pytest.mark.parametrize(
    "subject", ["CRD", "operator", "leader", "its rights", "your rights", "GPUs", "clocks"]
)
def test_the_cluster_of_the_tests_is_fine(levels: dict[str, set[str]], subject: str) -> None:
    assert levels[subject] == {"fine"}


def test_prometheus_was_asked_through_the_api_server_about_every_engine(
    levels: dict[str, set[str]],
) -> None:
    """Models of other tests come and go, so only this one is asked about."""

    def look() -> Object | None:
        about = [each for each in findings() if each["subject"] in ("Prometheus", "plugin")]
        bad = [each["message"] for each in about if each["level"] == "bad"]
        return {"status": [message for message in bad if NAME in message]}

    seen = wait_for("nothing is said of it", look, lambda seen: seen == {"status": []}, seconds=60)
    assert seen is not None
    # Nothing is left of it where the one sentence about it names an engine of another test.
    assert "unseen" not in levels.get("Prometheus", set())
