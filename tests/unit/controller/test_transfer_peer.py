"""Two models at the ends of a KV connector: the operator rolls out equal speculation only."""

from __future__ import annotations

from outrider.cluster.resources import DEPLOYMENTS
from tests.unit.controller.place import Place, a_decode_side, a_prefill_side


def launched(place: Place) -> bool:
    return DEPLOYMENTS.path("default", "m") in place.cluster.objects


async def test_equal_sides_are_launched() -> None:
    place = a_decode_side()
    place.store.models.put(a_prefill_side())
    await place.passes()
    assert launched(place)
    assert place.conditions.get("Degraded") != "TransferPeerDiffers"


async def test_sides_that_differ_are_not_rolled_out_and_the_message_names_what_differs() -> None:
    place = a_decode_side()
    place.store.models.put(a_prefill_side(numSpeculativeTokens=7))
    await place.passes()
    assert not launched(place)
    assert place.conditions["Degraded"] == "TransferPeerDiffers"
    assert "spec.speculation.numSpeculativeTokens is 3 here and 7 there" in place.trouble


async def test_the_rollout_continues_once_the_other_side_is_equal() -> None:
    place = a_decode_side()
    place.store.models.put(a_prefill_side(numSpeculativeTokens=7))
    await place.passes()
    place.store.models.put(
        a_prefill_side() | {"metadata": {**a_prefill_side()["metadata"], "resourceVersion": "2"}}
    )
    await place.passes()
    assert launched(place)


async def test_an_engine_that_serves_stays_as_it_is_while_its_other_side_differs() -> None:
    place = a_decode_side()
    await place.passes()
    before = place.cluster.objects[DEPLOYMENTS.path("default", "m")]
    place.store.models.put(a_prefill_side(method="none", numSpeculativeTokens=None))
    await place.passes()
    assert place.conditions["Degraded"] == "TransferPeerDiffers"
    assert place.cluster.objects[DEPLOYMENTS.path("default", "m")] == before


async def test_a_side_that_does_not_exist_is_a_known_issue_and_the_launch_continues() -> None:
    place = a_decode_side()
    await place.passes()
    assert launched(place)
    issues = place.cluster.conditions("m")["KnownIssues"]["message"]
    assert (
        "spec.engine.kvTransferPeer names prefill, and the namespace has no such SpeculativeModel" in issues
    )
