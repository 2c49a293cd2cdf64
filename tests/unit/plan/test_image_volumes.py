"""Weights in images of their own."""

from __future__ import annotations

from typing import Any, cast

import pytest

from outrider.api.reasons import DegradedReason
from outrider.plan import Plan, PlanSettings, plan
from outrider.plan.kubernetes_release import turned_off
from tests.unit.plan.factories import KEYS, a_model, a_plan, engine_container, environment, flag, pod_spec

IMAGE = "oci://ghcr.io/organisation/qwen3-8b:1"
DRAFTER = {"drafter": {"uri": f"{IMAGE}#drafter"}}


def volumes(planned: Plan) -> list[Any]:
    return cast(list[Any], pod_spec(planned)["volumes"])


def mounts(planned: Plan) -> list[Any]:
    return cast(list[Any], engine_container(planned)["volumeMounts"])


def test_an_image_is_mounted_read_only_where_the_engine_looks_for_the_model() -> None:
    planned = a_plan(a_model(uri=f"{IMAGE}#models/8b"))
    folder = "/images/ghcr.io/organisation/qwen3-8b@1"

    assert {"name": "images-0", "image": {"reference": "ghcr.io/organisation/qwen3-8b:1"}} in volumes(planned)
    assert {"name": "images-0", "mountPath": folder, "readOnly": True} in mounts(planned)
    assert flag(planned, "--model") == f"{folder}/models/8b"


def test_an_image_of_target_and_drafter_is_mounted_once() -> None:
    planned = a_plan(a_model(uri=IMAGE, method="eagle3", speculation=DRAFTER))
    assert [volume["name"] for volume in volumes(planned) if "image" in volume] == ["images-0"]


def test_an_engine_with_all_weights_in_images_does_not_ask_the_hub() -> None:
    assert environment(a_plan(a_model(uri=IMAGE)))["HF_HUB_OFFLINE"] == "1"


def test_no_mount_path_has_a_colon_which_kubernetes_refuses() -> None:
    planned = a_plan(a_model(uri=f"oci://registry:5000/a/b:1@sha256:{'0' * 64}"))
    assert not [mount for mount in mounts(planned) if ":" in mount["mountPath"]]


def test_a_cluster_whose_api_has_no_image_volumes_is_told_of_with_the_release_that_has_them() -> None:
    planned = plan(a_model(uri=IMAGE), settings=PlanSettings(), keys=KEYS, kubernetes=(1, 30))
    ((reason, message),) = planned.problems
    assert reason is DegradedReason.CLUSTER_TOO_OLD
    assert "from 1.35" in message
    assert "this cluster is 1.30" in message


@pytest.mark.parametrize("kubernetes", [(1, 31), (1, 35), (2, 0), None])
def test_a_cluster_that_may_have_image_volumes_is_tried(kubernetes: tuple[int, int] | None) -> None:
    assert not plan(a_model(uri=IMAGE), settings=PlanSettings(), keys=KEYS, kubernetes=kubernetes).problems


def test_an_old_cluster_serves_models_without_images() -> None:
    assert not plan(a_model(), settings=PlanSettings(), keys=KEYS, kubernetes=(1, 20)).problems


@pytest.mark.parametrize(
    ("uri", "kubernetes"), [(IMAGE, (1, 35)), (IMAGE, None), ("hf://a/b", (1, 33))], ids=str
)
def test_a_refusal_that_no_gate_explains_keeps_its_own_words(
    uri: str, kubernetes: tuple[int, int] | None
) -> None:
    assert turned_off(a_model(uri=uri).spec, kubernetes, "quota") is None
