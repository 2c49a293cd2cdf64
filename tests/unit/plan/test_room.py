"""Whether downloaded weights have room on the GPUs that a manifest names."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.api.weights import ArtifactStatus, WeightsStatus
from outrider.plan.gpu_labels import PRODUCT, selected_slice
from outrider.plan.weights.room import gpu_memory, no_room
from tests.unit.plan.factories import a_model

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def on_nodes(labels: Any, **more: Any) -> Any:
    return a_model(podTemplate={"spec": {"nodeSelector": labels}}, **more).spec


def weights(size: str, drafter: str | None = None, experts: int | None = None) -> WeightsStatus:
    def artifact(size: str, experts: int | None = None) -> ArtifactStatus:
        return ArtifactStatus(uri="hf://org/m", revision="r", path="p", size=size, experts=experts)

    return WeightsStatus(
        wanted="d", model=artifact(size, experts), drafter=None if drafter is None else artifact(drafter)
    )


@pytest.mark.parametrize(
    ("labels", "gib"),
    [
        (H100, 80),
        ({"nvidia.com/gpu.memory": "40960"}, 40),
        ({**H100, "nvidia.com/gpu.memory": "81559"}, 81559 / 1024),
        ({"nvidia.com/gpu.product": "NVIDIA-L40S"}, None),
        ({"nvidia.com/gpu.memory": "much"}, None),
        ({"nvidia.com/gpu.memory": "9" * 5000}, None),
        ({}, None),
        ("nodes", None),
    ],
)
def test_memory_is_what_the_node_selector_asks_for(labels: Any, gib: float | None) -> None:
    assert gpu_memory(on_nodes(labels)) == (None if gib is None else gib * 2**30)


@pytest.mark.parametrize(
    ("resource", "labels", "gib"),
    [
        ("mig-3g.40gb", {}, 40),
        ("mig-1g.10gb.me", {}, 10),
        ("mig-1c.3g.20gb", {}, 20),
        ("mig-1g.10gb", {"nvidia.com/mig-1g.10gb.memory": "9728"}, 9.5),
        ("mig-1g.10gb.me", {"nvidia.com/mig-1g.10gb.me.memory": "9728"}, 9.5),
        ("mig-1g.10gb", {"nvidia.com/mig-1g.10gb.memory": "much"}, 10),
        ("mig-1g.10gb", {"nvidia.com/mig-2g.20gb.memory": "19968"}, 10),
        ("mig-1g.10gb", {**H100, "nvidia.com/gpu.memory": "81559"}, 10),
        ("mig-1g", {}, None),
        (f"mig-1g.{'9' * 5000}gb", {}, None),
        ("gpu", {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}, 10),
        (
            "gpu",
            {"nvidia.com/gpu.product": "A100-SXM4-40GB-MIG-1g.5gb", "nvidia.com/gpu.memory": "4864"},
            4.75,
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_memory_of_a_slice_is_that_of_its_label_else_in_the_name_of_its_profile(
    resource: str, labels: dict[str, str], gib: float | None
) -> None:
    spec = on_nodes(labels, resources={"limits": {f"nvidia.com/{resource}": 1}})
    assert gpu_memory(spec) == (None if gib is None else gib * 2**30)


def test_weights_that_are_larger_than_their_gpus_are_told_with_both_numbers() -> None:
    said = no_room(on_nodes(H100, parallelism={"tensor": 1}), weights("141.2 GB"))
    assert said is not None
    assert "141.2 GB" in said
    assert "85.9 GB" in said


@pytest.mark.parametrize("gpus", [2, 4])
def test_weights_are_spread_over_the_gpus(gpus: int) -> None:
    assert no_room(on_nodes(H100, parallelism={"tensor": gpus}), weights("141.2 GB")) is None


@pytest.mark.parametrize("method", ["eagle3", "draft_model"])
@pytest.mark.parametrize(("size", "fits"), [("16.0 GB", True), ("40.0 GB", False)])
def test_a_drafter_is_spread_as_its_target(method: str, size: str, fits: bool) -> None:
    speculation = {"drafter": {"uri": "hf://org/drafter"}}
    spec = on_nodes(H100, method=method, parallelism={"tensor": 2}, speculation=speculation)
    assert (no_room(spec, weights("141.2 GB", size)) is None) == fits


@pytest.mark.parametrize(("experts", "fits"), [(None, False), (64, True)])
def test_data_parallel_ranks_divide_experts_alone(experts: int | None, fits: bool) -> None:
    spec = on_nodes(H100, method="none", parallelism={"data": 2})
    assert (no_room(spec, weights("150.0 GB", experts=experts)) is None) == fits


@pytest.mark.parametrize("size", ["141.2 GB", "unknown"])
def test_nothing_is_said_where_a_number_is_missing(size: str) -> None:
    assert no_room(on_nodes(H100 if size == "unknown" else {}), weights(size)) is None


@pytest.mark.parametrize(
    ("product", "profile"),
    [
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "1g.5gb"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1C.1G.5GB-me", "1C.1G.5GB"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gbx", None),
        ("NVIDIA-A100-SXM4-40GB", None),
        ("A" * 52 + "-MIG-1g.5gb", "1g.5gb"),
        ("A" * 53 + "-MIG-1g.5gb", None),
        ("-MIG-1g.5gb" * 20_000 + "\n\n", None),
    ],
)
def test_a_slice_is_known_by_a_label_that_a_node_can_have(product: str, profile: str | None) -> None:
    assert selected_slice(on_nodes({PRODUCT: product})) == profile
