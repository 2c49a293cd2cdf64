from __future__ import annotations

import base64
from typing import Any

import pytest

from outrider.cluster.ownership import Owner
from outrider.cluster.resources import SECRETS
from outrider.controller.children import Children
from outrider.controller.store import Store
from tests.unit.controller.quiet_cluster import QuietCluster

OWNER = Owner("default", "m", "uid-m")
GOOD = "A-good_token.of-43-characters/and=signs~0123"


async def token_with(data: dict[str, str], *, uid: str = OWNER.uid) -> str:
    """The control token of a model whose Secret holds ``data``."""
    owner = {"kind": "SpeculativeModel", "name": "m", "uid": uid, "controller": True}
    secret: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "m-control", "namespace": "default", "ownerReferences": [owner]},
        "data": data,
    }
    cluster = QuietCluster()
    cluster.objects[SECRETS.path("default", "m-control")] = secret
    return await Children(cluster, Store()).control_token(OWNER)  # type: ignore[arg-type]


def encoded(token: str) -> dict[str, str]:
    return {"token": base64.b64encode(token.encode()).decode()}


async def test_a_token_that_is_there_is_kept() -> None:
    assert await token_with(encoded(GOOD)) == GOOD


async def test_a_token_in_somebody_elses_secret_is_not_used() -> None:
    assert await token_with(encoded(GOOD), uid="another") != GOOD


@pytest.mark.parametrize(
    "token",
    ["ключ" * 20, "ü" * 40, "\x00" * 40, f"{GOOD}\n", f"{GOOD}\r\nHost: x", " " * 40, "short", "x" * 5_000],
)
async def test_what_no_http_header_can_carry_is_replaced_by_a_new_token(token: str) -> None:
    found = await token_with(encoded(token))

    assert found != token
    assert found.isascii()
    assert len(found) >= 32


@pytest.mark.parametrize("data", [{}, {"token": "no base64!"}, {"token": "/w=="}])
async def test_a_secret_without_a_readable_token_gets_one(data: dict[str, str]) -> None:
    assert len(await token_with(data)) >= 32
