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
from outrider.cluster.resources import SECRETS
from outrider.controller.children import Children
from outrider.controller.store import Store
from outrider.engine.signing import SigningKey
from tests.unit.controller.quiet_cluster import QuietCluster

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
    return await Children(cluster, Store()).signing_key(OWNER)  # type: ignore[arg-type]


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
