"""What a pass does about the key pair of a model's control API."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from outrider.cluster.resources import CONFIG_MAPS, DEPLOYMENTS, SECRETS, Resource
from outrider.engine.signing import SigningKey
from tests.unit.controller.place import KEY, Place


def child(place: Place, resource: Resource, name: str) -> dict[str, Any]:
    found: dict[str, Any] = place.cluster.objects[resource.path("default", name)]
    return found


def stored_key(place: Place) -> SigningKey:
    return SigningKey.read(base64.b64decode(child(place, SECRETS, "m-control")["data"]["private-key"]))


def public_key(place: Place) -> str:
    return str(child(place, CONFIG_MAPS, "m-schedule")["data"]["control-key.pub"])


async def test_engines_read_the_public_key_of_the_private_one_that_is_stored() -> None:
    place = Place()
    await place.passes()
    assert public_key(place) == stored_key(place).public_pem
    assert place.store.reconciled[KEY].key == stored_key(place)


async def test_every_pass_uses_the_same_key() -> None:
    place = Place()
    await place.passes()
    first = stored_key(place)
    await place.passes(2)
    assert stored_key(place) == place.store.reconciled[KEY].key == first


async def test_a_pass_reads_the_secret_once(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    await place.passes()
    asked: list[Resource] = []
    get = place.cluster.get

    async def counted(resource: Resource, namespace: str, name: str) -> dict[str, Any] | None:
        asked.append(resource)
        return await get(resource, namespace, name)

    monkeypatch.setattr(place.cluster, "get", counted)
    await place.passes()
    assert asked.count(SECRETS) == 1


async def test_a_deleted_secret_makes_a_new_pair_and_restarts_nothing() -> None:
    place = Place()
    await place.passes()
    lost, template = stored_key(place), child(place, DEPLOYMENTS, "m")["spec"]["template"]
    del place.cluster.objects[SECRETS.path("default", "m-control")]
    await place.passes()
    assert stored_key(place) != lost
    assert public_key(place) == stored_key(place).public_pem
    assert place.store.reconciled[KEY].key == stored_key(place)
    assert child(place, DEPLOYMENTS, "m")["spec"]["template"] == template


async def test_a_public_key_that_somebody_changed_is_put_right() -> None:
    place = Place()
    await place.passes()
    changed = child(place, CONFIG_MAPS, "m-schedule")
    version = str(int(changed["metadata"]["resourceVersion"]) + 1)
    another = SigningKey.generate().public_pem
    changed = {
        **changed,
        "metadata": {**changed["metadata"], "resourceVersion": version},
        "data": {**changed["data"], "control-key.pub": another},
    }
    place.cluster.objects[CONFIG_MAPS.path("default", "m-schedule")] = changed
    place.store.children[CONFIG_MAPS].put(changed)
    assert public_key(place) == another
    await place.passes()
    assert public_key(place) == stored_key(place).public_pem != another
