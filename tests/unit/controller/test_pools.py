"""The InferencePool of a model is made, judged and taken away, and never keeps engines from serving."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from outrider.cluster.errors import from_status
from outrider.cluster.resources import DEPLOYMENTS, INFERENCE_POOLS, SERVICES
from tests.unit.controller.factories import a_raw_model
from tests.unit.controller.place import KEY, Place

PATH = INFERENCE_POOLS.path("default", "m")
ASKED: dict[str, Any] = {"inferencePool": {"endpointPicker": {"service": "m-epp"}}}


def a_place(*, kind: bool = True, picker: bool = True, **spec: Any) -> Place:
    """A model with a pool, in a cluster with the kind and the picker's Service."""
    place = Place(a_raw_model(**{**ASKED, **spec}))
    if kind:
        place.cluster.add_ons.add(INFERENCE_POOLS)
    if picker:
        place.cluster.objects[SERVICES.path("default", "m-epp")] = {"metadata": {"name": "m-epp"}}
    return place


def answers(place: Place, kind: str, status: str, reason: str, message: str) -> None:
    """A Gateway writes into the status of the pool."""
    condition = {"type": kind, "status": status, "reason": reason, "message": message}
    parents = [{"parentRef": {"name": "edge"}, "conditions": [condition]}]
    place.cluster.objects[PATH] |= {"status": {"parents": parents}}


async def test_a_pool_is_made_and_nothing_is_wrong() -> None:
    place = a_place()
    await place.passes(2)
    assert place.cluster.objects[PATH]["spec"]["endpointPickerRef"]["name"] == "m-epp"
    assert "Degraded" not in place.conditions


async def test_a_pool_that_somebody_changed_is_corrected() -> None:
    place = a_place()
    await place.passes()
    place.cluster.objects[PATH]["spec"] |= {"targetPorts": [{"number": 1}]}
    await place.passes()
    assert place.cluster.objects[PATH]["spec"]["targetPorts"] == [{"number": 8000}]


async def test_without_the_kind_engines_serve_and_the_condition_names_the_remedy() -> None:
    place = a_place(kind=False)
    again = await place.reconciler.reconcile(KEY)
    place.has_a_ready_pod()
    await place.passes()
    assert again is not None
    assert again <= 30
    assert place.conditions["Degraded"] == "InferencePoolMissing"
    assert place.conditions["Ready"] == "Serving"
    assert "Install the CRDs of the Gateway API Inference Extension" in place.trouble

    place.cluster.add_ons.add(INFERENCE_POOLS)
    await place.passes()
    assert PATH in place.cluster.objects
    assert "Degraded" not in place.conditions


async def test_without_the_right_engines_serve_and_the_condition_names_the_verbs() -> None:
    place = a_place()
    forbidden = from_status(403, "inferencepools is forbidden: cannot patch", retry_after=None)
    with patch.object(place.cluster, "get", side_effect=refusing(place, forbidden)):
        await place.passes()
    assert DEPLOYMENTS.path("default", "m") in place.cluster.objects
    assert place.conditions["Degraded"] == "InferencePoolMissing"
    assert "get, create, patch and delete on inferencepools" in place.trouble


def refusing(place: Place, error: Exception) -> Any:
    """`get`, without the right to read pools."""
    plain = place.cluster.get

    async def get(resource: Any, namespace: str, name: str) -> Any:
        if resource is INFERENCE_POOLS:
            raise error
        return await plain(resource, namespace, name)

    return get


async def test_a_pool_of_somebody_else_stays_and_engines_serve() -> None:
    place = a_place()
    metadata = {"name": "m", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    api = INFERENCE_POOLS.api_version
    foreign = {"apiVersion": api, "kind": "InferencePool", "metadata": metadata, "spec": {}}
    place.cluster.objects[PATH] = foreign
    await place.passes()
    assert place.cluster.objects[PATH] == foreign
    assert place.conditions["Degraded"] == "NameTaken"
    assert DEPLOYMENTS.path("default", "m") in place.cluster.objects


async def test_a_picker_without_a_service_is_reported() -> None:
    place = a_place(picker=False)
    await place.passes()
    assert place.conditions["Degraded"] == "EndpointPickerMissing"
    assert "no Service m-epp" in place.trouble
    assert PATH in place.cluster.objects


@pytest.mark.parametrize("kind", ["Accepted", "ResolvedRefs"])
async def test_what_a_gateway_says_against_the_pool_is_reported(kind: str) -> None:
    place = a_place()
    await place.passes()
    answers(place, kind, "False", "InvalidExtensionRef", "no such Service.")
    await place.passes()
    assert place.conditions["Degraded"] == "InferencePoolNotAccepted"
    assert f"Gateway edge reports {kind}=False, InvalidExtensionRef: no such Service." in place.trouble


async def test_a_gateway_that_accepts_the_pool_is_no_trouble() -> None:
    place = a_place()
    await place.passes()
    answers(place, "Accepted", "True", "Accepted", "")
    await place.passes()
    assert "Degraded" not in place.conditions


async def test_a_pool_goes_when_the_spec_no_longer_asks_for_it() -> None:
    place = a_place()
    await place.passes()
    place.store.models.put(a_raw_model(version=10_000))
    await place.passes()
    assert PATH not in place.cluster.objects


async def test_a_pool_is_found_after_a_restart_and_looked_for_once() -> None:
    place = a_place()
    await place.passes()
    place.store.models.put(a_raw_model(version=10_000))
    place.reconciler = place.a_reconciler(60.0)
    with patch.object(place.cluster, "get", wraps=place.cluster.get) as asked:
        await place.passes(3)
    assert PATH not in place.cluster.objects
    assert sum(call.args[0] is INFERENCE_POOLS for call in asked.call_args_list) == 1


async def test_a_pool_of_the_same_name_that_is_not_the_models_stays() -> None:
    place = Place()
    metadata = {"name": "m", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    api = INFERENCE_POOLS.api_version
    place.cluster.objects[PATH] = {"apiVersion": api, "kind": "InferencePool", "metadata": metadata}
    await place.passes()
    assert PATH in place.cluster.objects


async def test_a_member_of_no_pool_is_reported_until_the_other_model_has_one() -> None:
    place = a_place(inferencePool={"memberOf": "decode"})
    await place.passes()
    assert place.conditions["Degraded"] == "InferencePoolMissing"
    assert "memberOf names decode" in place.trouble
    place.store.models.put(a_raw_model("decode", uid="uid-d", **ASKED))
    await place.passes()
    assert "Degraded" not in place.conditions
    assert PATH not in place.cluster.objects
