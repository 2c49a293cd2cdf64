"""vLLM's own images have no plugin: with Live they are refused before a pod ends without a word."""

from __future__ import annotations

import pytest

from outrider.api.reasons import DegradedReason
from outrider.plan import Plan
from tests.unit.plan.factories import a_model, a_plan

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


def planned(image: str, **tuning: str) -> Plan:
    speculation = {"tuning": tuning} if tuning else {}
    return a_plan(a_model(engine={"image": image}, speculation=speculation))


@pytest.mark.parametrize("image", STOCK)
def test_vllms_own_image_is_refused_with_live_and_what_to_do_is_said(image: str) -> None:
    ((reason, message),) = planned(image).problems
    assert reason is DegradedReason.UNSUPPORTED
    assert "lacks the plugin" in message
    for way in ("leave image out", "engine_image/Dockerfile", "spec.speculation.tuning.actuation: Rollout"):
        assert way in message


@pytest.mark.parametrize("image", STOCK)
def test_it_is_launched_as_a_stock_engine_with_rollout(image: str) -> None:
    assert planned(image, actuation="Rollout").problems == ()


@pytest.mark.parametrize("image", OTHERS)
def test_an_image_that_may_hold_the_plugin_is_launched(image: str) -> None:
    assert planned(image).problems == ()
