"""Will it fit?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api.methods import Method
from outrider.sizing.drafters import eagle_head, prediction_layer
from outrider.sizing.gpus import GPUS, gpu_named, gpu_of_product
from outrider.sizing.memory import Load, Memory, Verdict, memory
from tests.unit.sizing.factories import a_drafter, a_gpu, a_known

ORDER = [Verdict.TOO_LARGE, Verdict.CROWDED, Verdict.FITS]


def held(
    gigabytes: float = 80.0, *, gpus: int = 1, streams: int = 8, context: int = 4096, k: int = 5
) -> Memory:
    target = a_known("Llama-3.1-8B")
    return memory(
        target,
        a_drafter(target),
        gigabytes * 1e9,
        gpus=gpus,
        share=0.9,
        candidates=k,
        load=Load(streams, context),
    )


@given(
    gigabytes=st.floats(1, 200),
    more=st.floats(0, 100),
    gpus=st.integers(1, 8),
    streams=st.integers(1, 512),
    context=st.integers(1, 131_072),
)
def test_more_memory_never_makes_a_launch_fit_worse(
    gigabytes: float, more: float, gpus: int, streams: int, context: int
) -> None:
    small = held(gigabytes, gpus=gpus, streams=streams, context=context)
    large = held(gigabytes + more, gpus=gpus, streams=streams, context=context)
    assert ORDER.index(small.verdict) <= ORDER.index(large.verdict)


@given(gigabytes=st.floats(1, 200), gpus=st.integers(1, 7), streams=st.integers(1, 512))
def test_another_gpu_never_makes_a_launch_fit_worse(gigabytes: float, gpus: int, streams: int) -> None:
    few, more = held(gigabytes, gpus=gpus, streams=streams), held(gigabytes, gpus=gpus + 1, streams=streams)
    assert ORDER.index(few.verdict) <= ORDER.index(more.verdict)


@given(gigabytes=st.floats(1, 200), streams=st.integers(1, 512), context=st.integers(1, 131_072))
def test_a_launch_fits_exactly_when_its_parts_do(gigabytes: float, streams: int, context: int) -> None:
    found = held(gigabytes, streams=streams, context=context)
    assert (found.verdict is Verdict.FITS) == (found.needed <= found.available)


def test_each_k_that_is_captured_takes_memory() -> None:
    assert held(k=6).needed > held(k=5).needed


def test_a_drafter_is_spread_as_its_target() -> None:
    """vLLM loads heads and prediction layers with the target's parallel configuration."""
    target = a_known("Llama-3.1-8B")
    head = eagle_head(Method.EAGLE, target)
    for drafter in (
        head,
        prediction_layer(target),
        *(a_drafter(target, n) for n in ("eagle3", "Llama-3.2-1B")),
    ):
        found = memory(
            target, drafter, a_gpu().memory_bytes, gpus=2, share=0.9, candidates=1, load=Load(1, 1)
        )
        assert found.drafter == drafter.weight_bytes / 2


@pytest.mark.parametrize("name", ["h100", "H100", "h100 pcie", "H100-SXM5", "A100"])
def test_a_gpu_is_found_by_the_names_that_people_use(name: str) -> None:
    assert gpu_named(name) is not None


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("NVIDIA-H100-80GB-HBM3", "H100"),
        ("NVIDIA-H100-PCIe", "H100-PCIe"),
        ("NVIDIA-H100-NVL", "H100-NVL"),
        ("NVIDIA-H200", "H200"),
        ("NVIDIA-A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA-A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA-L40S", "L40S"),
        ("NVIDIA-L4", "L4"),
        ("NVIDIA-H20", "H20"),
        ("NVIDIA-B200", "B200"),
        ("NVIDIA-B300-SXM6-AC", "B300"),
        ("NVIDIA-GB200", "GB200"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX-PRO-6000"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition", "RTX-PRO-6000"),
        ("NVIDIA-GeForce-RTX-5090", "RTX-5090"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("AMD_Instinct_MI325X_OAM", "MI325X"),
        ("AMD_Instinct_MI355X_OAM", "MI355X"),
    ],
)
def test_a_gpu_is_found_by_the_label_of_its_node(label: str, name: str) -> None:
    for found in (gpu_of_product(label), gpu_named(label)):
        assert found is not None
        assert found.name == name


@pytest.mark.parametrize(
    "label",
    [
        "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb",
        "NVIDIA-A100-SXM-64GB",
        "NVIDIA-GH200-480GB",
        "NVIDIA-H20-3e",
        "NVIDIA-L40S-SHARED",
        "NVIDIA-GeForce-RTX-5090-Laptop-GPU",
        "NVIDIA-A10",
    ],
)
def test_a_gpu_with_other_memory_is_not_taken_for_one_of_the_table(label: str) -> None:
    assert gpu_of_product(label) is None
    assert gpu_named(label) is None


def test_a_gpu_that_is_not_in_the_table_is_not_taken_for_another() -> None:
    assert gpu_named("L400") is None
    assert gpu_of_product("NVIDIA-L400") is None


def test_every_gpu_says_where_its_numbers_come_from() -> None:
    assert all(gpu.source for gpu in GPUS)
