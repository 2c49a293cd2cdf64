"""Any image of vLLM serves: an init container brings the plugin to one that lacks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from outrider.api.reasons import DegradedReason
from outrider.plan import Plan, PlanSettings
from outrider_protocol.releases import DEFAULT_RELEASE
from tests.unit.plan.factories import (
    CACHE,
    Json,
    a_model,
    a_plan,
    engine_container,
    environment,
    pod_spec,
)

STOCK = (
    "vllm/vllm-openai:v0.33.0",
    "docker.io/vllm/vllm-openai:latest",
    "mirror.example:5000/hub/vllm/vllm-openai@sha256:" + "0" * 64,
    "vllm/vllm-openai-cpu",
    "vllm/vllm-openai-rocm:v0.33.0",
    "public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.33.0",
    "rocm/vllm:latest",
    "nvcr.io/nvidia/vllm:26.09-py3",
)
OTHERS = ("outrider/engine:0.33.0", "registry.example/team/vllm:1", "registry.example/vllm-with-outrider:1")
OURS = "registry.example/outrider-engine:1"
HUB = f"vllm/vllm-openai:v{DEFAULT_RELEASE}"
PLUGIN_IMAGE = "registry.example/outrider-plugin:1"
ROLLOUT = {"tuning": {"actuation": "Rollout"}}


def planned(*, images: Mapping[str, str] = {}, plugin_image: str | None = PLUGIN_IMAGE, **spec: Any) -> Plan:
    settings = PlanSettings(engine_images=images, plugin_image=plugin_image)
    return a_plan(a_model(**spec), settings=settings)


def bringing(pod: Json) -> list[Json]:
    """The init containers that bring the plugin."""
    found: list[Json] = pod.get("initContainers", [])  # type: ignore[assignment]
    return [one for one in found if one["name"] == "outrider-plugin"]


def source(result: Plan) -> tuple[object, bool]:
    """The engine's image, and whether the plugin is brought to it."""
    return engine_container(result)["image"], bool(bringing(pod_spec(result)))


@pytest.mark.parametrize("image", STOCK)
def test_vllms_own_image_gets_the_plugin(image: str) -> None:
    assert source(planned(engine={"image": image})) == (image, True)


@pytest.mark.parametrize("image", STOCK)
def test_it_is_launched_as_a_stock_engine_with_rollout(image: str) -> None:
    assert source(planned(engine={"image": image}, speculation=ROLLOUT)) == (image, False)


@pytest.mark.parametrize("image", OTHERS)
def test_an_image_that_may_hold_the_plugin_is_launched_as_it_is(image: str) -> None:
    assert source(planned(engine={"image": image})) == (image, False)


@pytest.mark.parametrize("image", OTHERS)
def test_an_image_of_another_name_gets_the_plugin_where_the_spec_says_so(image: str) -> None:
    assert source(planned(engine={"image": image, "plugin": "Injected"})) == (image, True)


@pytest.mark.parametrize(
    ("plugin", "operators", "expected"),
    [
        (None, None, (HUB, True)),
        (None, OURS, (OURS, False)),
        (None, f"mirror.example/{HUB}", (f"mirror.example/{HUB}", True)),
        ("Injected", None, (HUB, True)),
        ("Injected", OURS, (HUB, True)),
        ("Injected", f"mirror.example/{HUB}", (f"mirror.example/{HUB}", True)),
        ("Baked", OURS, (OURS, False)),
    ],
)
def test_without_an_image_in_the_spec_the_operators_is_taken_where_it_fits_and_else_vllms_own(
    plugin: str | None, operators: str | None, expected: tuple[str, bool]
) -> None:
    images = {} if operators is None else {DEFAULT_RELEASE: operators}
    engine = {} if plugin is None else {"plugin": plugin}
    assert source(planned(images=images, engine=engine)) == expected


@pytest.mark.parametrize("images", [{}, {DEFAULT_RELEASE: HUB}])
def test_baked_without_an_image_that_has_the_plugin_is_a_problem(images: Mapping[str, str]) -> None:
    ((reason, message),) = planned(images=images, engine={"plugin": "Baked"}).problems
    assert reason is DegradedReason.UNSUPPORTED
    assert "set spec.engine.image, or leave spec.engine.plugin out" in message


def test_the_plugin_is_copied_into_a_volume_that_the_engine_reads() -> None:
    pod = pod_spec(planned())
    (init,) = bringing(pod)
    volume = {"name": "outrider-plugin", "emptyDir": {"sizeLimit": "64Mi"}}
    assert init["image"] == PLUGIN_IMAGE
    assert init["volumeMounts"] == [{"name": "outrider-plugin", "mountPath": "/plugin"}]
    assert volume in pod["volumes"]  # type: ignore[operator]
    mount = {"name": "outrider-plugin", "mountPath": "/opt/outrider", "readOnly": True}
    assert mount in engine_container(planned())["volumeMounts"]  # type: ignore[operator]
    assert environment(planned())["PYTHONPATH"] == "/opt/outrider"


def test_the_container_that_brings_it_is_as_restricted_as_the_engine() -> None:
    (init,) = bringing(pod_spec(planned()))
    assert init["securityContext"] == engine_container(planned())["securityContext"]
    assert init["resources"]["requests"] == init["resources"]["limits"]  # type: ignore[index]


def test_commands_of_both_are_the_same() -> None:
    baked, injected = (
        engine_container(planned(engine={"image": image})) for image in ("outrider/engine:1", HUB)
    )
    assert baked["command"] == injected["command"]
    assert baked["args"] == injected["args"]
    assert baked["lifecycle"] == injected["lifecycle"]


def test_the_plugin_comes_before_the_init_containers_of_a_team() -> None:
    template = {"spec": {"initContainers": [{"name": "mine", "image": "mine:1"}]}}
    containers: Any = pod_spec(planned(podTemplate=template))["initContainers"]
    assert [one["name"] for one in containers] == ["outrider-plugin", "mine"]


def test_a_search_path_of_the_manifest_stays_behind_the_plugins() -> None:
    env = [{"name": "PYTHONPATH", "value": "/opt/outrider:/data"}]
    template = {"spec": {"containers": [{"name": "engine", "env": env}]}}
    assert environment(planned(podTemplate=template))["PYTHONPATH"] == "/opt/outrider:/data"


def test_each_pod_of_a_group_gets_the_plugin() -> None:
    group = planned(parallelism={"tensor": 4, "nodes": 2}, rollout={"onFailure": "Hold"}).child(
        "LeaderWorkerSet"
    )
    assert group is not None
    templates: Any = group["spec"]["leaderWorkerTemplate"]  # type: ignore[index]
    for name in ("leaderTemplate", "workerTemplate"):
        assert bringing(templates[name]["spec"]), name


@pytest.mark.parametrize("speculation", [{}, ROLLOUT])
def test_a_download_has_its_program_from_the_plugin(speculation: Mapping[str, object]) -> None:
    job = planned(cache=CACHE, speculation=speculation).child("Job")
    assert job is not None
    pod: Any = job["spec"]["template"]["spec"]  # type: ignore[index]
    (container,) = pod["containers"]
    assert [one["image"] for one in bringing(pod)] == [PLUGIN_IMAGE]
    assert container["image"] == HUB
    assert {"name": "PYTHONPATH", "value": "/opt/outrider"} in container["env"]
    assert "/opt/outrider" in [mount["mountPath"] for mount in container["volumeMounts"]]


@pytest.mark.parametrize("spec", [{}, {"cache": CACHE}, {"cache": CACHE, "speculation": ROLLOUT}])
def test_an_operator_without_an_image_of_the_plugin_says_which_value_to_set(spec: dict[str, Any]) -> None:
    ((reason, message),) = planned(plugin_image=None, **spec).problems
    assert reason is DegradedReason.UNSUPPORTED
    assert "Set the chart's value pluginImage" in message


@pytest.mark.parametrize(
    "spec",
    [{"speculation": ROLLOUT}, {"engine": {"image": OURS}}, {"engine": {"image": OURS}, "cache": CACHE}],
)
def test_it_is_not_needed_where_no_pod_needs_the_plugin_from_it(spec: dict[str, Any]) -> None:
    assert planned(plugin_image=None, **spec).problems == ()
