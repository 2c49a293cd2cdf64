"""Which resources of the container are GPUs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from outrider.api.resource import SpeculativeModel
from outrider.plan import Plan
from outrider.runtimes import runtime_of
from outrider.runtimes.resources import uses_gpu
from tests.unit.plan.factories import a_model, a_plan, environment
from tests.unit.runtimes.sglang_models import a_sglang_model


def planned(resource: str, amount: int | str = 1) -> Plan:
    drafter = {"drafter": {"uri": "hf://org/drafter"}}
    return a_plan(a_model(method="eagle3", speculation=drafter, resources={"limits": {resource: amount}}))


@pytest.mark.parametrize(
    "resource", ["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"]
)
def test_gpus_of_any_vendor_partitions_and_turns_are_gpus(resource: str) -> None:
    assert uses_gpu(a_model(resources={"limits": {resource: 1}}).spec)
    assert environment(planned(resource)) == environment(planned("nvidia.com/gpu"))


@pytest.mark.parametrize(
    "limits",
    [{"nvidia.com/gpu": 0}, {"nvidia.com/gpu.shared": "0"}, {"nvidia.com/gpu.product": 1}, {"memory": "8Gi"}],
)
def test_no_gpu_is_no_gpu(limits: dict[str, int | str]) -> None:
    assert not uses_gpu(a_model(resources={"limits": limits}).spec)


def gpus_said(model: SpeculativeModel) -> bool:
    return any("spec.parallelism needs 2" in text for text in runtime_of(model.spec).advice(model.spec, None))


@pytest.mark.parametrize("make", [a_model, a_sglang_model], ids=["vLLM", "SGLang"])
@pytest.mark.parametrize(("gpus", "said"), [(1, True), (2, False), (4, False)])
def test_fewer_gpus_than_parallelism_needs_are_named(
    make: Callable[..., SpeculativeModel], gpus: int, said: bool
) -> None:
    limits = {"limits": {"nvidia.com/gpu": gpus}}
    assert gpus_said(make(parallelism={"tensor": 2}, resources=limits)) == said


def test_the_gpus_of_a_ray_cluster_are_not_counted() -> None:
    engine = {"args": {"distributed-executor-backend": "ray"}}
    limits = {"limits": {"nvidia.com/gpu": 1}}
    assert not gpus_said(a_model(engine=engine, parallelism={"tensor": 2}, resources=limits))
