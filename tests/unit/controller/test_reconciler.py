"""What a pass says about itself when it cannot be finished."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.api.reasons import DegradedReason
from outrider.cluster.errors import NotFound, Unavailable, from_status
from outrider.cluster.resources import DEPLOYMENTS, MODELS
from outrider.controller.reconcile import reconciler
from outrider.controller.reconcile.reconciler import PassTooLong
from outrider.controller.stored import Key
from outrider.plan import planner
from outrider.plan.pod import pod_template
from tests.unit.controller.factories import a_condition, a_raw_model
from tests.unit.controller.place import KEY, TOO_LARGE, Place

MISTYPED = (
    "failed to create typed patch object (default/m; apps/v1, Kind=Deployment): "
    ".spec.template.spec.hostNetwrk: field not declared in schema"
)


async def test_a_field_that_there_is_not_is_told_in_the_api_servers_words() -> None:
    place = Place()
    place.cluster.fails = from_status(500, MISTYPED, retry_after=1.0)
    await place.passes()

    assert place.conditions["Degraded"] == "ApplyRefused"
    assert place.trouble == MISTYPED


async def test_a_refusal_of_any_length_is_told() -> None:
    place = Place()
    place.cluster.fails = from_status(422, "no " * 5_000, retry_after=None)
    await place.passes()

    assert place.conditions["Degraded"] == "ApplyRefused"
    assert place.trouble.endswith("…")


async def test_a_failure_that_passes_is_not_told() -> None:
    place = Place()
    await place.passes()
    place.store.models.put(a_raw_model(version=5_000, replicas=2))
    await place.fails(Unavailable("etcd is away"), times=2)

    assert "Degraded" not in place.conditions


async def test_a_failure_that_stays_is_told_with_its_cause() -> None:
    place = Place()
    await place.fails(Unavailable("etcd is away"), times=3)

    assert place.conditions["Degraded"] == "ReconcileFailed"
    assert "Unavailable: etcd is away" in place.trouble


async def test_a_failure_that_stays_is_written_once() -> None:
    place = Place()
    await place.fails(Unavailable("etcd is away"), times=3)
    await place.fails(Unavailable("etcd is away"), times=3)

    assert place.cluster.status_writes == 1


async def test_a_failure_is_over_with_the_first_pass_that_succeeds() -> None:
    place = Place()
    await place.fails(Unavailable("etcd is away"), times=4)
    await place.passes()
    place.store.models.put(a_raw_model(version=5_000, replicas=2))
    await place.fails(Unavailable("etcd is away"), times=2)

    assert "Degraded" not in place.conditions


async def test_a_pass_whose_writes_hang_is_ended_and_the_status_says_so_at_once() -> None:
    place = Place(pass_seconds=0.3)
    place.cluster.hangs = DEPLOYMENTS
    with pytest.raises(PassTooLong, match="webhook"):
        await place.reconciler.reconcile(KEY)

    assert place.conditions["Degraded"] == "ReconcileFailed"
    assert "a reconcile took longer than 0 s and was stopped" in place.trouble
    assert "webhook" in place.trouble


async def test_the_pass_after_one_that_was_ended_writes_what_is_missing() -> None:
    place = Place()
    place.cluster.hangs = DEPLOYMENTS
    with pytest.raises(PassTooLong):
        await place.a_reconciler(pass_seconds=0.01).reconcile(KEY)
    place.cluster.hangs = None
    await place.passes()

    assert DEPLOYMENTS.path("default", "m") in place.cluster.objects
    assert "Degraded" not in place.conditions


async def test_a_status_that_hangs_as_well_holds_no_slot() -> None:
    place = Place(pass_seconds=0.01)
    place.cluster.hangs = MODELS
    with pytest.raises(PassTooLong):
        await place.reconciler.reconcile(KEY)

    assert place.cluster.status_writes == 0


async def test_a_timeout_of_something_else_is_told_as_what_it_is() -> None:
    place = Place()
    await place.fails(TimeoutError("the disk"), times=3)

    assert "TimeoutError: the disk" in place.trouble


async def test_pods_that_serve_are_told_of_while_passes_fail() -> None:
    place = Place()
    await place.passes()
    place.has_a_ready_pod()
    place.store.models.put(
        a_raw_model(
            version=5_000, speculation={"method": "ngram", "numSpeculativeTokens": 3}, rollout={"maxSurge": 2}
        )
    )
    await place.fails(Unavailable("etcd is away"), times=3)

    assert place.conditions == {"Ready": "Serving", "Progressing": "Complete", "Degraded": "ReconcileFailed"}


async def test_a_defect_that_one_model_brings_to_light_is_told_in_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def defect(*_: object, **__: object) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    place = Place()
    monkeypatch.setattr(reconciler, "Rendered", defect)
    await place.failing_passes(RecursionError(), times=3)

    assert place.conditions == {"Ready": "Blocked", "Progressing": "Blocked", "Degraded": "ReconcileFailed"}
    assert "RecursionError: maximum recursion depth exceeded" in place.trouble


async def test_a_failure_that_cannot_be_told_is_still_the_one_that_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refused(*_: object, **__: object) -> None:
        raise Unavailable("no status either")

    place = Place()
    monkeypatch.setattr(place.cluster, "apply_status", refused)
    place.cluster.fails = Unavailable("etcd is away")

    for _ in range(3):
        with pytest.raises(Unavailable, match="etcd is away"):
            await place.passes()


async def test_pods_that_the_api_server_refuses_are_told_in_its_words_and_by_an_event() -> None:
    place = Place()
    await place.passes()
    deployment = place.cluster.objects[DEPLOYMENTS.path("default", "m")]
    refusal = a_condition("ReplicaFailure", reason="FailedCreate", message="no account x")
    seen = {
        **deployment,
        "metadata": {**deployment["metadata"], "resourceVersion": "5000"},
        "status": {"conditions": [refusal]},
    }
    place.store.children[DEPLOYMENTS].put(seen)
    await place.passes()

    assert place.conditions["Degraded"] == "PodsNotCreated"
    assert place.trouble == "no account x"
    assert place.cluster.status["m"]["reason"] == "PodsNotCreated"
    assert [event["note"] for event in place.cluster.events] == ["PodsNotCreated: no account x"]


async def test_a_change_that_came_with_the_answer_to_a_status_is_looked_at_at_once() -> None:
    place = Place()
    place.cluster.meanwhile = {"annotations": {"outrider.dev/paused": "true"}}
    await place.passes()

    assert place.on_external_change == [KEY]


async def test_an_answer_that_brings_nothing_but_the_status_wakes_nobody() -> None:
    place = Place()
    await place.passes()

    assert place.cluster.status_writes == 1
    assert place.on_external_change == []


async def test_a_model_whose_status_there_is_nowhere_to_write_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def nowhere(*_: object, **__: object) -> None:
        raise NotFound("no model m")

    place = Place()
    monkeypatch.setattr(place.cluster, "apply_status", nowhere)

    assert await place.reconciler.reconcile(KEY) is None
    assert place.store.models.get(KEY) is None
    assert place.store.reconciled == {}


async def test_a_deleted_model_takes_along_what_it_named() -> None:
    place = Place()
    stored = place.store.models.get(KEY)
    assert stored is not None
    place.store.neighbours[Key("default", "named")] = stored
    place.store.models.drop(stored.metadata)
    await place.passes()

    assert place.store.neighbours == {}


async def test_the_successor_of_a_model_that_is_gone_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nowhere(*_: object, **__: object) -> None:
        place.store.models.put(a_raw_model(uid="uid-new", version=5_000))
        raise NotFound("no model m")

    place = Place()
    monkeypatch.setattr(place.cluster, "apply_status", nowhere)
    await place.passes()

    successor = place.store.models.get(KEY)
    assert successor is not None
    assert successor.metadata.uid == "uid-new"


async def test_what_keeps_a_model_from_being_tuned_is_told_while_it_is_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def defect(*_: object) -> None:
        raise OverflowError("date value out of range")

    place = Place()
    monkeypatch.setattr("outrider.controller.policy_from_spec.policy_from_spec", defect)
    await place.passes()

    assert place.conditions == {
        "Ready": "RollingOut",
        "Progressing": "RollingOut",
        "Degraded": "NotTuned",
    }
    assert place.trouble == "OverflowError: date value out of range"


IN_AN_IMAGE = {"uri": "oci://ghcr.io/organisation/qwen3-8b:1"}


async def test_a_cluster_without_image_volumes_is_told_of_before_any_pod_is_made() -> None:
    place = Place(a_raw_model(model=IN_AN_IMAGE))
    place.cluster.kubernetes = (1, 30)
    await place.passes()

    assert place.conditions["Degraded"] == "ClusterTooOld"
    assert DEPLOYMENTS.path("default", "m") not in place.cluster.objects


async def test_a_refusal_where_the_gate_of_image_volumes_may_be_off_names_the_gate() -> None:
    place = Place(a_raw_model(model=IN_AN_IMAGE))
    place.cluster.kubernetes = (1, 34)
    place.cluster.fails = from_status(422, "must specify a volume type", retry_after=None)
    await place.passes()

    assert place.conditions["Degraded"] == "ClusterTooOld"
    assert "turn on its feature gate ImageVolume" in place.trouble
    assert place.trouble.endswith("must specify a volume type")


async def test_weights_that_are_too_large_are_told_and_the_pods_are_made_all_the_same() -> None:
    place = Place(a_raw_model(**TOO_LARGE))
    await place.passes()
    told = place.cluster.conditions("m")["Degraded"]
    assert told["reason"] == DegradedReason.WILL_NOT_FIT
    assert "141.1 GB" in told["message"]
    assert DEPLOYMENTS.path("default", "m") in place.cluster.objects


async def test_a_share_of_memory_that_is_no_number_is_the_engines_to_refuse() -> None:
    place = Place(
        a_raw_model(**TOO_LARGE, engine={"image": "e:1", "args": {"gpu-memory-utilization": "much"}})
    )
    await place.passes()
    assert "Degraded" not in place.conditions


async def test_a_pass_renders_each_launch_configuration_once(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    await place.passes()
    place.has_a_ready_pod()
    rendered: list[object] = []

    def counted(*arguments: Any, **more: Any) -> Any:
        rendered.append(arguments)
        return pod_template(*arguments, **more)

    monkeypatch.setattr(planner, "pod_template", counted)
    await place.passes()

    assert len(rendered) == 1
