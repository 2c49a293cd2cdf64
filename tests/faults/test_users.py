"""A user or another controller that works against the operator: it repairs once, and starts no storm."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.faults.kills import Course, live_until
from tests.faults.life import CHILDREN, NAME, SETTINGS, Life, Wanted, a_life
from tests.faults.oracles import Picture, differences
from tests.faults.place import Place

pytestmark = pytest.mark.nightly("long")

_OWNED = (
    ("Deployment", NAME),
    ("Service", NAME),
    ("ConfigMap", f"{NAME}-schedule"),
    ("Secret", f"{NAME}-control"),
    ("ServiceAccount", NAME),
    ("PodDisruptionBudget", f"{NAME}-engines"),
)


@pytest.fixture
def life(place: Place, namespaces: Callable[[], str], reference: Course) -> Iterator[Life]:
    """A model with K=3."""
    with a_life(place, namespaces(), {**SETTINGS, "OUTRIDER_RESYNC_SECONDS": "10"}) as found:
        live_until(found, "retune", reference)
        yield found


def path(life: Life, kind: str, name: str) -> str:
    return f"{CHILDREN[kind].format(life.namespace)}/{name}"


@pytest.mark.parametrize(("kind", "name"), _OWNED)
def test_a_child_that_a_user_deletes_comes_back(kind: str, name: str, life: Life, reference: Course) -> None:
    life.place.api.delete(path(life, kind, name))
    life.must_be_like(reference.pictures["retune"], counts=False)


@pytest.mark.parametrize(("kind", "name"), _OWNED)
def test_a_child_that_loses_its_labels_gets_them_back_and_restarts_no_pod(
    kind: str, name: str, life: Life, reference: Course
) -> None:
    found = life.place.api.get(path(life, kind, name))
    assert found is not None
    labels = dict.fromkeys(found["metadata"]["labels"])
    life.place.api.patch(path(life, kind, name), {"metadata": {"labels": labels}})
    life.must_be_like(reference.pictures["retune"])


@pytest.mark.parametrize(("kind", "name"), _OWNED)
def test_a_child_that_loses_its_owner_is_adopted_again_and_restarts_no_pod(
    kind: str, name: str, life: Life, reference: Course
) -> None:
    life.place.api.patch(path(life, kind, name), {"metadata": {"ownerReferences": None}})
    life.must_be_like(reference.pictures["retune"])


def test_a_foreign_object_with_a_childs_name_is_left_alone_and_its_end_heals(
    place: Place, namespaces: Callable[[], str], reference: Course
) -> None:
    with a_life(place, namespaces(), {**SETTINGS, "OUTRIDER_RESYNC_SECONDS": "10"}) as life:
        foreign = {"metadata": {"name": NAME}, "spec": {"ports": [{"port": 1234}]}}
        life.place.api.create(CHILDREN["Service"].format(life.namespace), foreign)
        life.restart()
        life.create()
        life.until(lambda: "" if life.condition("Degraded").get("reason") == "NameTaken" else "NameTaken")
        found = life.place.api.get(path(life, "Service", NAME))
        assert found is not None
        assert [port["port"] for port in found["spec"]["ports"]] == [1234]
        life.place.api.delete(path(life, "Service", NAME))
        life.must_be_like(reference.pictures["create"])


def test_a_second_writer_meets_no_storm_of_writes(life: Life) -> None:
    """It changes a field of the operator ten times a second for 5 s."""
    since, until = len(life.gate.calls), time.monotonic() + 5
    while time.monotonic() < until:
        life.place.api.patch(path(life, "Deployment", NAME), {"spec": {"progressDeadlineSeconds": 77}})
        time.sleep(0.1)
    life.settle(life.wanted)
    found = life.place.api.get(path(life, "Deployment", NAME))
    assert found is not None
    assert found["spec"]["progressDeadlineSeconds"] != 77
    patches = [s for s in life.gate.calls[since:] if str(s.call) == f"PATCH deployments/{NAME}"]
    assert len(patches) <= 60


def test_there_and_back_within_a_moment_restarts_no_pod(life: Life) -> None:
    """Ten times a second, between two specs and between a valid and a refused overlay."""
    started = set(life.history.started)
    life.operator.stop()
    for seqs in (96, 64, 128, 96, 128):
        life.change({"engine": {"args": {"max-num-seqs": seqs}}})
    life.restart()
    life.settle(life.wanted)
    assert life.history.started == started


def test_a_spec_that_changes_during_a_rollout_ends_at_the_last_one(life: Life) -> None:
    for seqs in (96, 64, 96, 32, 48):
        life.change({"engine": {"args": {"max-num-seqs": seqs}}})
        time.sleep(0.1)
    life.settle(replace(life.wanted, scratch="48"))
    assert life.history.fewest is not None
    assert life.history.fewest >= life.wanted.replicas


TUNING = (
    {"mode": "Auto", "canary": None},
    {"mode": "Auto", "canary": "Allow"},
    {"mode": "Auto", "canary": "Never"},
    {"mode": "Off", "canary": "Never", "structuralOff": "Never"},
)


def a_random_change(chance: random.Random) -> dict[str, Any]:
    """A merge into the spec. None removes a field."""
    makers: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: {"replicas": chance.choice((1, 2, 3))},
        lambda: {"engine": {"args": {"max-num-seqs": chance.choice((32, 64, 96))}}},
        lambda: {"engine": {"env": chance.choice((None, [{"name": "A", "value": chance.choice("ab")}]))}},
        lambda: {"resources": {"limits": {"memory": chance.choice(("64Gi", "96Gi"))}}},
        lambda: {"speculation": {"tuning": chance.choice(TUNING)}},
        lambda: {"speculation": {"candidates": chance.choice(([0, 1, 3, 5], [0, 1, 2, 3, 5]))}},
    )
    return chance.choice(makers)()


def without_revisions(found: Picture) -> Picture:
    """Kubernetes counts the rollouts of a Deployment in an annotation."""
    children = {}
    for name, content in found.children.items():
        metadata = dict(content["metadata"])
        metadata["annotations"] = {
            key: value
            for key, value in metadata["annotations"].items()
            if key != "deployment.kubernetes.io/revision"
        }
        children[name] = {**content, "metadata": metadata}
    return Picture(children, templates=0, pods=0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_random_specs_end_at_depends_on_the_last_one_alone(
    seed: int, life: Life, place: Place, namespaces: Callable[[], str]
) -> None:
    chance = random.Random(seed)
    for _ in range(15):
        life.change(a_random_change(chance))
        time.sleep(chance.uniform(0.0, 0.6))
    model = life.model()
    assert model is not None
    wanted = Wanted(model["spec"]["replicas"], k=None)
    life.settle(wanted)
    with a_life(place, namespaces(), {**SETTINGS, "OUTRIDER_RESYNC_SECONDS": "10"}) as fresh:
        fresh.restart()
        fresh.create_like(model)
        fresh.settle(wanted)
        expected = without_revisions(fresh.picture())

        def unlike() -> str:
            return "; ".join(differences(expected, without_revisions(life.picture())))

        life.until(unlike)
    assert life.operator.starts == 1, "the process ended"
    assert life.client.failed == []


def test_a_quota_that_refuses_a_pod_is_named_and_its_end_heals(life: Life) -> None:
    """Its controller does not run, so the test writes the count that admission reads."""
    path, hard = f"/api/v1/namespaces/{life.namespace}/resourcequotas", {"pods": "2"}
    life.place.api.create(path, {"metadata": {"name": "two"}, "spec": {"hard": hard}})
    life.place.api.patch(f"{path}/two/status", {"status": {"hard": hard, "used": hard}})
    started = set(life.history.started)
    life.change({"replicas": 3})
    life.until(lambda: "" if "exceeded quota" in life.condition("Degraded").get("message", "") else "a quota")
    assert life.condition("Degraded")["reason"] == "PodsNotCreated"
    assert life.history.started == started
    life.place.api.delete(f"{path}/two")
    life.settle(replace(life.wanted, replicas=3))


def test_readiness_that_flaps_restarts_nothing_and_writes_no_child(life: Life, reference: Course) -> None:
    pods = life.place.api.items(CHILDREN["Pod"].format(life.namespace))
    name = pods[0]["metadata"]["name"]
    since = len(life.gate.calls)
    for ready in [False, True] * 3:
        condition = {"type": "Ready", "status": str(ready)}
        others = [c for c in pods[0]["status"]["conditions"] if c["type"] != "Ready"]
        change = {"status": {"conditions": [*others, condition]}}
        life.place.api.patch(f"{path(life, 'Pod', name)}/status", change)
        time.sleep(0.5)
    life.must_be_like(reference.pictures["retune"])
    calls = [seen.call for seen in life.gate.calls[since:]]
    assert not [
        c for c in calls if c.writes and c.plural in ("services", "configmaps") and "tuner" not in c.name
    ]
