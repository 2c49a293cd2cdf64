"""Whatever the CRD's schema lets through costs at most its own model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from outrider.api.annotations import OVERRIDE, OVERRIDE_UNTIL, PAUSED
from outrider.api.conditions import MAX_MESSAGE
from outrider.api.status import Status
from outrider.cluster.resources import CONFIG_MAPS
from outrider.controller.process import room_for_deep_json
from outrider.controller.reconcile.reconciler import Reconciler
from outrider.controller.store import Reconciled, Store
from outrider.controller.store_fleet import StoreFleet
from outrider.controller.stored import Key
from outrider.engine.signing import SigningKey
from outrider.plan import PlanSettings
from outrider.plan.names import MODEL_LABEL
from tests.unit.api.from_schema import admitted, anything, deep, odd_numbers, odd_texts, scalars, schema_of
from tests.unit.controller.factories import NOW, a_launch_order, a_raw_model, a_raw_pod
from tests.unit.controller.target_place import ListingCluster

KEY = SigningKey.generate()
ODD, HEALTHY = Key("default", "m"), Key("default", "healthy")

texts = (
    odd_texts | st.text(max_size=20) | st.sampled_from(["true", "8:3,*:0", "1:1," * 70 + "*:0", "9:1,8:1"])
)
moments = texts | st.sampled_from(["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
metadata = st.fixed_dictionaries(
    {
        "annotations": st.fixed_dictionaries(
            {}, optional={PAUSED: texts, OVERRIDE: texts, OVERRIDE_UNTIL: moments}
        )
    },
    optional={"labels": st.just({MODEL_LABEL: "other"})},
)
numeric = st.sampled_from(
    ["max-num-seqs", "max-num-batched-tokens", "max_num_batched_tokens", "shutdown-timeout"]
)
flags = st.dictionaries(numeric, odd_numbers, max_size=1) | st.dictionaries(
    numeric | st.text(max_size=3), scalars | st.lists(scalars, max_size=2), max_size=2
)
containers = st.fixed_dictionaries(
    {"name": st.just("engine") | scalars},
    optional={
        field: anything
        | st.lists(st.dictionaries(st.sampled_from(["name", "mountPath", "$patch"]), anything))
        for field in ("env", "ports", "volumeMounts", "resources", "args")
    },
)
overlays = deep | st.fixed_dictionaries(
    {},
    optional={"containers": st.lists(containers, max_size=2) | anything, "volumes": anything, "x": anything},
)
whole_objects = st.builds(
    lambda spec, status, about: _object(spec, status, about),
    admitted(schema_of("spec")),
    admitted(schema_of("status")),
    metadata,
)
objects_that_reach_the_plan = st.builds(
    lambda args, overlay, about: _object(
        {**a_raw_model()["spec"], "engine": {"image": "e:1", "args": args}, "podTemplate": overlay}, {}, about
    ),
    flags,
    st.fixed_dictionaries({}, optional={"spec": overlays}),
    metadata,
)


@pytest.fixture(scope="module", autouse=True)
def as_in_the_operator() -> Iterator[None]:
    with room_for_deep_json():
        yield


def _object(spec: Any, status: Any, about: Any) -> dict[str, Any]:
    raw = {**a_raw_model(), "spec": spec, "status": status}
    return {**raw, "metadata": {**raw["metadata"], **about}}


def a_store(odd: dict[str, Any], *, launch: str, order: str) -> tuple[Store, ListingCluster]:
    """The odd model beside a healthy one, each with a pod; launch and order of the odd one are odd, too."""
    healthy = a_raw_model("healthy", uid="uid-healthy")
    store = Store()
    assert store.models.put(odd) is not None
    assert store.models.put(healthy) is not None
    store.pods.put(a_raw_pod("m-1", ready=True, launch=launch))
    store.pods.put(a_raw_pod("healthy-1", model="healthy", ready=True))
    store.children[CONFIG_MAPS].put(a_launch_order(order))
    store.reconciled = {ODD: Reconciled(KEY), HEALTHY: Reconciled(KEY)}
    return store, ListingCluster(odd, healthy)


def check(odd: dict[str, Any], launch: str, order: str) -> None:
    store, cluster = a_store(odd, launch=launch, order=order)
    reconciler = Reconciler(cluster, store, settings=PlanSettings(), now=lambda: NOW)  # type: ignore[arg-type]

    for key in (ODD, ODD, HEALTHY):
        asyncio.run(reconciler.reconcile(key))
        assert "healthy" in [model.name for model in StoreFleet(store).tuned_models()]

    assert "Degraded" not in cluster.conditions("healthy")
    told = cluster.conditions("m")
    event(told["Degraded"]["reason"] if "Degraded" in told else "carried out")
    assert all(len(condition["message"]) <= MAX_MESSAGE for condition in told.values())
    assert len(Status.model_validate(cluster.status["m"]).conditions) == len(told)
    assert told.get("Degraded", {"reason": ""})["reason"] not in ("ReconcileFailed", "NotTuned")


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(odd=whole_objects, launch=texts, order=texts)
def test_whatever_the_schema_admits_is_carried_out_or_told_and_the_other_model_goes_on(
    odd: dict[str, Any], launch: str, order: str
) -> None:
    check(odd, launch, order)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(odd=objects_that_reach_the_plan, launch=texts, order=texts)
def test_whatever_flags_and_overlays_say_is_carried_out_or_told_and_the_other_model_goes_on(
    odd: dict[str, Any], launch: str, order: str
) -> None:
    check(odd, launch, order)
