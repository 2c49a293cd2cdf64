"""Which resources of the container are GPUs."""

from __future__ import annotations

import pytest

from outrider.plan import Plan
from outrider.runtimes.resources import uses_gpu
from tests.unit.plan.factories import a_model, a_plan, environment


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
