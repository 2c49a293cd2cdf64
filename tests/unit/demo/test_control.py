from __future__ import annotations

from unittest.mock import AsyncMock, MagicMock

from examples.demo.control import Control, Hold, interruption, look
from examples.kit.cluster import PodCount
from outrider.cluster.errors import ClusterError


def control(*, restarts: int = 0, uid: str = "a", holder: str = "one", transitions: int = 4) -> Control:
    return Control(PodCount({uid: restarts}), {"outrider-system": Hold(holder, transitions)})


def test_an_operator_that_led_throughout_is_not_mentioned() -> None:
    assert interruption(control(), control()) is None


def test_a_restart_of_the_operator_is_told() -> None:
    told = interruption(control(), control(restarts=1))
    assert told is not None
    assert "it was restarted or replaced once." in told


def test_a_lease_that_changed_hands_is_told_with_how_often() -> None:
    told = interruption(control(), control(holder="two", transitions=6))
    assert told is not None
    assert "its Lease changed hands 2 times." in told


async def test_the_operator_is_seen_as_the_api_server_tells_it() -> None:
    pod = {"metadata": {"uid": "a"}, "status": {"containerStatuses": [{"restartCount": 3}]}}
    lease = {
        "metadata": {"namespace": "outrider-system"},
        "spec": {"holderIdentity": "one", "leaseTransitions": 4},
    }
    cluster = MagicMock()
    cluster.client.list_all = AsyncMock(side_effect=[([pod], 1), ([lease], 1)])
    assert await look(cluster) == control(restarts=3)


async def test_an_api_server_that_does_not_answer_leaves_it_open() -> None:
    cluster = MagicMock()
    cluster.client.list_all = AsyncMock(side_effect=ClusterError("busy"))
    assert await look(cluster) is None
    assert "not known" in str(interruption(control(), None))
