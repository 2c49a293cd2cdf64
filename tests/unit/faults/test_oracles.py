"""The judges of a life find what they are for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.faults.faults import Call
from tests.faults.kills import points, table
from tests.faults.oracles import complaints, differences, orphans, picture
from tests.faults.soak import Sample, growth

KINDS = (
    "Deployment",
    "Service",
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "PodDisruptionBudget",
    "ReplicaSet",
)


def objects(namespace: str = "a", replicas: int = 2, **more: Any) -> dict[str, list[dict[str, Any]]]:
    """A model of one Deployment. more: objects of other kinds."""
    metadata = {
        "name": "m",
        "namespace": namespace,
        "uid": f"uid-of-{namespace}",
        "annotations": {"outrider.dev/applied": f"digest-of-{namespace}"},
        "ownerReferences": [{"name": "m", "uid": f"owner-of-{namespace}"}],
    }
    host = f"m.{namespace}.svc"
    deployment = {"metadata": metadata, "spec": {"replicas": replicas, "host": host}, "status": {"x": 1}}
    return {kind: [] for kind in KINDS} | {"Deployment": [deployment]} | more


def test_equal_models_of_two_namespaces_have_one_picture() -> None:
    assert differences(picture(objects("a"), 2, "a"), picture(objects("b"), 2, "b")) == []


def test_another_field_is_found() -> None:
    found = differences(picture(objects(), 2, "a"), picture(objects(replicas=3), 2, "a"))
    assert found == ["Deployment m: .spec.replicas is 3, not 2"]


def test_an_object_too_many_is_found() -> None:
    other = objects(Service=[{"metadata": {"name": "m"}, "spec": {}}])
    [found] = differences(picture(objects(), 2, "a"), picture(other, 2, "a"))
    assert "Service m" in found


def test_a_rollout_too_many_is_found_though_the_end_is_equal() -> None:
    reference = picture(objects(), 2, "a")
    assert len(differences(reference, replace(reference, templates=1, pods=4))) == 2


def test_what_stays_after_a_deletion_is_named() -> None:
    assert orphans(objects()) == ["Deployment m"]


def test_a_defect_in_the_log_is_found_and_a_warning_is_none() -> None:
    log = "t WARNING outrider.controller: a\nt ERROR   outrider.controller: b\nt ERROR   asyncio: c\n"
    assert complaints(log) == ["t ERROR   outrider.controller: b"]


def test_each_write_is_a_point_and_of_equal_reads_the_first() -> None:
    read, write = Call("GET", "pods"), Call("PATCH", "services", "m")
    watch, renewal = Call("GET", "pods", watch=True), Call("PUT", "leases", "outrider")
    found = points("create", [read, write, read, watch, write, renewal, renewal])
    assert [(each.call, each.ordinal) for each in found] == [(read, 0), (write, 0), (write, 1), (renewal, 0)]
    assert len(table(found)) == 2 * len(found)


def test_growth_beyond_pools_is_found() -> None:
    flat = [Sample(100.0 + each % 3, 40, 30, 9, 50) for each in range(16)]
    assert growth(flat) == []
    leaking = [replace(each, files=40 + 3 * at) for at, each in enumerate(flat)]
    assert growth(leaking) == ["files grew from 56.5 to 80.5"]
