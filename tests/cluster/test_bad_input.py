"""A user's mistake gives a stable reason and a helpful sentence, and engines keep serving."""

from __future__ import annotations

import pytest

from tests.cluster.api_server import refusal_of
from tests.cluster.kubectl import KubectlError, apply, condition, get, has_condition, kubectl, wait_for
from tests.cluster.models import Deploy, Manifest, model
from tests.unit.api.admission_cases import CASES, AdmissionCase

pytestmark = pytest.mark.engine("none", "refused")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_api_server_admits_or_refuses(case: AdmissionCase) -> None:
    said = refusal_of(case.manifest, "default")
    if case.refused is None:
        assert said is None
    else:
        assert said is not None
        assert case.refused in said


def test_a_misspelt_field_is_refused(example: Manifest) -> None:
    example["spec"]["speculation"]["numSpeculativeToken"] = 3
    with pytest.raises(KubectlError, match="numSpeculativeToken"):
        apply(example, "--dry-run=server", "--validate=strict")


def test_a_model_path_that_does_not_exist_is_named(example: Manifest, deploy: Deploy) -> None:
    example["spec"]["model"]["uri"] = "pvc://tiny-models/no-such-model"
    deploy(example, "no-such-model")
    seen = wait_for(
        "Degraded with ModelNotFound",
        lambda: model("no-such-model"),
        lambda seen: has_condition(seen, "Degraded", "True", "ModelNotFound"),
        seconds=90,
    )
    degraded = condition(seen, "Degraded")
    assert degraded is not None
    assert "no-such-model" in degraded["message"]
    assert has_condition(seen, "Ready", "False")


def test_a_pod_that_never_becomes_ready_runs_into_the_deadline(example: Manifest, deploy: Deploy) -> None:
    example["spec"]["rollout"] = {"progressDeadline": "10s"}
    example["spec"]["resources"] = {"requests": {"cpu": "1000"}}
    deploy(example, "too-large")
    seen = wait_for(
        "Progressing is False with ProgressDeadlineExceeded",
        lambda: model("too-large"),
        lambda seen: has_condition(seen, "Progressing", "False", "ProgressDeadlineExceeded"),
        seconds=60,
    )
    assert has_condition(seen, "Degraded", "True", "Unschedulable")


def test_an_image_that_cannot_be_pulled_is_named(example: Manifest, deploy: Deploy) -> None:
    example["spec"]["engine"]["image"] = "registry.invalid/no/such-image:1"
    deploy(example, "no-such-image")
    seen = wait_for(
        "Degraded with ImagePullFailed",
        lambda: model("no-such-image"),
        lambda seen: has_condition(seen, "Degraded", "True", "ImagePullFailed"),
        seconds=90,
    )
    degraded = condition(seen, "Degraded")
    assert degraded is not None
    assert "registry.invalid/no/such-image:1" in degraded["message"]


def test_a_foreign_object_with_a_childs_name_stays_untouched(example: Manifest, deploy: Deploy) -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "taken", "namespace": "default"},
        "spec": {"selector": {"app": "somebody-else"}, "ports": [{"port": 81}]},
    }
    apply(foreign)
    try:
        example["spec"]["replicas"] = 0
        deploy(example, "taken")
        wait_for(
            "Degraded with NameTaken",
            lambda: model("taken"),
            lambda seen: has_condition(seen, "Degraded", "True", "NameTaken"),
            seconds=60,
        )
        service = get("service", "taken")
        assert service is not None
        assert service["spec"]["selector"] == {"app": "somebody-else"}
    finally:
        kubectl("delete", "service", "taken", "-n", "default", "--ignore-not-found")
    wait_for(
        "heals when the foreign object goes",
        lambda: model("taken"),
        lambda seen: condition(seen, "Degraded") is None,
        seconds=60,
    )
