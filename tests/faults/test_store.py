"""The store behind the API server forgets: it is compacted, or restored from a backup."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.faults.kills import live_until
from tests.faults.life import SETTINGS, Life, a_life
from tests.faults.place import MODELS, Place, a_place

pytestmark = pytest.mark.nightly("long")


@pytest.fixture
def own_place(tmp_path: Path) -> Iterator[Place]:
    """One whose API server may stop. Kubernetes' own controllers are of no use after a restored backup."""
    with a_place(tmp_path) as found:
        yield found


@pytest.fixture
def life(own_place: Place, namespaces: Callable[[], str]) -> Iterator[Life]:
    """A model with K=3."""
    with a_life(own_place, namespaces(), {**SETTINGS, "OUTRIDER_RESYNC_SECONDS": "10"}) as found:
        live_until(found, "retune")
        yield found


def compact(place: Place) -> None:
    """Forget all versions but the present one, also in the API server's cache."""
    with httpx.Client(base_url=place.server.store, timeout=30.0) as etcd:
        present = etcd.post("/v3/kv/range", json={"key": "AA=="}).raise_for_status().json()
        asked = {"revision": present["header"]["revision"], "physical": True}
        etcd.post("/v3/kv/compaction", json=asked).raise_for_status()
    with place.server.stopped():
        pass


def not_forgotten(life: Life, version: str) -> str:
    """What a watch from this version begins with; "" where it ends with 410."""
    query = f"?watch=true&timeoutSeconds=1&resourceVersion={version}"
    answer = life.place.api.text(MODELS.format(life.namespace) + query)
    return "" if '"code":410' in answer else f"410 in place of {answer:.200}"


def test_a_compaction_while_the_watches_were_down_loses_no_change(life: Life) -> None:
    model = life.model()
    assert model is not None
    life.place.loop.run(life.proxy.stop())
    life.change({"replicas": 3})
    compact(life.place)
    life.until(lambda: not_forgotten(life, model["metadata"]["resourceVersion"]), restarts=False)
    life.place.loop.run(life.proxy.start())
    life.settle(replace(life.wanted, replicas=3))
    assert life.operator.starts == 1, "the process ended"
    assert life.client.failed == []


@pytest.mark.parametrize("up", [True, False])
def test_a_restored_backup_is_followed(up: bool, life: Life) -> None:
    """up: whether the operator runs meanwhile; it runs afterwards."""
    before, backup = life.picture(), life.place.server.folder / f"{life.namespace}-backup"
    with life.place.server.stopped() as store:
        shutil.copytree(store, backup)
    life.change({"replicas": 3, "engine": {"args": {"max-num-seqs": 96}}})
    life.override(5)
    life.settle(replace(life.wanted, replicas=3, scratch="96", k=5), seconds=120)
    if not up:
        life.operator.stop()
    with life.place.server.stopped() as store:
        shutil.rmtree(store)
        shutil.copytree(backup, store)
    life.settle(life.wanted, seconds=120)
    life.must_be_like(before, counts=False)
    assert life.operator.starts == (1 if up else 2)
