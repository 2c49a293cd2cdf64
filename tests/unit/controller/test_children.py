from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from outrider.cluster.ownership import Owner
from outrider.cluster.resources import CONFIG_MAPS, LEADER_WORKER_SETS, SECRETS, Resource
from outrider.controller.children import Children
from outrider.controller.store import Store
from outrider.engine.signing import SigningKey
from tests.unit.controller.quiet_cluster import Json, QuietCluster

OWNER = Owner("default", "m", "uid-m")
GOOD = SigningKey.generate()


async def key_with(data: dict[str, str], *, uid: str = OWNER.uid) -> SigningKey:
    """The key of a model whose Secret holds ``data``."""
    owner = {"kind": "SpeculativeModel", "name": "m", "uid": uid, "controller": True}
    secret: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "m-control", "namespace": "default", "ownerReferences": [owner]},
        "data": data,
    }
    cluster = QuietCluster()
    cluster.objects[SECRETS.path("default", "m-control")] = secret
    return (await Children(cluster, Store()).control_secret(OWNER)).key  # type: ignore[arg-type]


def encoded(key: bytes | str) -> dict[str, str]:
    raw = key.encode() if isinstance(key, str) else key
    return {"private-key": base64.b64encode(raw).decode()}


async def test_a_key_that_is_there_is_kept() -> None:
    assert await key_with(encoded(GOOD.private_pem)) == GOOD


async def test_a_key_in_somebody_elses_secret_is_not_used() -> None:
    assert await key_with(encoded(GOOD.private_pem), uid="another") != GOOD


async def test_every_new_key_is_another_one() -> None:
    assert await key_with({}) != await key_with({})


LOCKED = Ed25519PrivateKey.generate().private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password")
)
OTHER_KIND = generate_private_key(SECP256R1()).private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"token": encoded(GOOD.private_pem)["private-key"]},
        {"private-key": "no base64!"},
        {"private-key": "ключ"},
        encoded(b""),
        encoded(b"\xff" * 50),
        encoded(GOOD.public_pem),
        encoded(GOOD.private_pem[:60]),
        encoded(LOCKED),
        encoded(OTHER_KIND),
    ],
    ids=[
        "none",
        "a token",
        "no base64",
        "no ascii",
        "empty",
        "bytes",
        "public",
        "cut",
        "locked",
        "not ed25519",
    ],
)
async def test_a_secret_without_a_usable_key_gets_one(data: dict[str, str]) -> None:
    found = await key_with(data)

    assert found != GOOD
    assert SigningKey.read(found.private_pem.encode()) == found


class Counting(QuietCluster):
    """Notes what is asked for and what is applied."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.applied: list[str] = []
        self.kinds_asked = 0

    async def serves(self, resource: Resource) -> bool:
        self.kinds_asked += 1
        return await super().serves(resource)

    async def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        self.asked.append(name)
        return await super().get(resource, namespace, name)

    async def apply(self, manifest: Json, *, manager: str) -> Json:
        self.applied.append(manifest["metadata"]["name"])
        return await super().apply(manifest, manager=manager)


class Place:
    """One ConfigMap that is wanted. size: of its content."""

    def __init__(self, size: int) -> None:
        self.cluster = Counting()
        self.store = Store()
        self.children = Children(self.cluster, self.store)  # type: ignore[arg-type]
        owner = {"kind": "SpeculativeModel", "name": "m", "uid": OWNER.uid, "controller": True}
        self.wanted: Json = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "default", "ownerReferences": [owner]},
            "data": {"text": "x" * size},
        }

    async def passes(self) -> tuple[int, int]:
        """Reads and writes of one pass."""
        self.cluster.asked.clear()
        self.cluster.applied.clear()
        await self.children.apply(OWNER, [self.wanted])
        return len(self.cluster.asked), len(self.cluster.applied)

    def somebody_writes(self, **fields: object) -> None:
        """The watch brings it."""
        path = CONFIG_MAPS.path("default", "c")
        raw = self.cluster.objects[path]
        self.cluster.version_number += 1
        metadata = {**raw["metadata"], "resourceVersion": str(self.cluster.version_number)}
        self.cluster.objects[path] = {**raw, "metadata": metadata, **fields}
        self.store.children[CONFIG_MAPS].put(self.cluster.objects[path])


SMALL, LARGE = 10, 100_000


async def test_a_secret_that_is_missing_is_looked_for_once() -> None:
    place = Place(SMALL)
    metadata = {**place.wanted["metadata"], "name": "m-control"}
    place.wanted = {**place.wanted, "kind": "Secret", "metadata": metadata, "data": {}}
    secret = await place.children.control_secret(OWNER)

    await place.children.apply(OWNER, [place.wanted], secret=secret)

    assert (place.cluster.asked, place.cluster.applied) == (["m-control"], ["m-control"])


async def test_many_models_ask_once_for_an_optional_kind() -> None:
    cluster, now = Counting(), 0.0
    children = Children(cluster, Store(), clock=lambda: now)  # type: ignore[arg-type]

    assert [await children.may_exist(LEADER_WORKER_SETS) for _ in range(3)] == [False] * 3
    assert cluster.kinds_asked == 1
    now += 11.0
    await children.may_exist(LEADER_WORKER_SETS)
    assert cluster.kinds_asked == 2


async def test_a_child_is_looked_for_by_name_before_it_is_made() -> None:
    assert await Place(SMALL).passes() == (1, 1)


@pytest.mark.parametrize(("size", "reads"), [(SMALL, 0), (LARGE, 1)], ids=["small", "large"])
async def test_a_child_is_compared_once_and_read_anew_only_where_it_is_large(size: int, reads: int) -> None:
    place = Place(size)
    await place.passes()
    assert await place.passes() == (reads, 0)
    assert await place.passes() == (0, 0)
    place.somebody_writes(status={"phase": "Odd"})
    assert await place.passes() == (0, 0)


@pytest.mark.parametrize(("size", "reads"), [(SMALL, 0), (LARGE, 1)], ids=["small", "large"])
async def test_what_somebody_changed_is_changed_back(size: int, reads: int) -> None:
    place = Place(size)
    await place.passes()
    await place.passes()
    place.somebody_writes(data={"text": "y" * size})
    assert await place.passes() == (reads, 1)
    assert place.cluster.objects[CONFIG_MAPS.path("default", "c")]["data"] == place.wanted["data"]


async def test_what_somebody_added_is_left_alone() -> None:
    place = Place(SMALL)
    await place.passes()
    place.somebody_writes(data={**place.wanted["data"], "theirs": "y"})
    assert await place.passes() == (0, 0)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
async def test_another_plan_is_applied_without_a_look(size: int) -> None:
    place = Place(size)
    await place.passes()
    await place.passes()
    place.wanted = {**place.wanted, "data": {"text": "z" * size}}
    assert await place.passes() == (0, 1)


async def test_a_large_child_that_is_gone_meanwhile_is_made_anew() -> None:
    place = Place(LARGE)
    await place.passes()
    place.cluster.objects.clear()
    assert await place.passes() == (1, 1)
