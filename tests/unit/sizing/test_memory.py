"""Will it fit?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sizing.architecture import Architecture
from outrider.sizing.drafters import DraftingModel, unknown_size, without_weights
from outrider.sizing.gpus import GPUS, gpu_named, gpu_of_product
from outrider.sizing.memory import Load, Memory, Verdict, memory
from outrider.sizing.spread import Spread
from outrider_protocol.methods import Method
from tests.unit.sizing.factories import a_drafter, a_gpu, a_known

LOAD = Load(1, 4096)
ORDER = [Verdict.TOO_LARGE, Verdict.CROWDED, Verdict.FITS]


def held(
    gigabytes: float = 80.0, *, gpus: int = 1, streams: int = 8, context: int = 4096, k: int = 5
) -> Memory:
    target = a_known("Llama-3.1-8B")
    return memory(
        target,
        a_drafter(target),
        gigabytes * 1e9,
        spread=Spread(tensor=gpus),
        share=0.9,
        candidates=tuple(range(k)),
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


@pytest.mark.parametrize("name", ["eagle3", "Llama-3.2-1B"])
def test_a_drafter_is_sharded_as_its_target_and_lies_on_the_last_stage(name: str) -> None:
    target = a_known("Llama-3.1-8B")
    drafter = a_drafter(target, name)
    found = on_h100(target, drafter, Spread(tensor=2, pipeline=2))
    assert found.drafter == drafter.weight_bytes / 2
    assert found.weights == target.weight_bytes / 4


def on_h100(target: Architecture, drafter: DraftingModel, spread: Spread, load: Load = LOAD) -> Memory:
    gpu_bytes = a_gpu().memory_bytes
    return memory(target, drafter, gpu_bytes, spread=spread, share=0.9, candidates=(0, 1), load=load)


@pytest.mark.parametrize("name", ["GLM-4.7-FP8", "DeepSeek-R1"])
def test_ranks_of_data_parallelism_share_experts_and_requests(name: str) -> None:
    target = a_known(name)
    none = without_weights(Method.NONE)
    found = on_h100(target, none, Spread(tensor=2, data=4), Load(8, 4096))
    assert found.weights == target.expert_weight_bytes / 8 + target.other_weight_bytes / 2
    assert found.streams == 2
    assert found.streams_with_room % 4 == 0


def test_ranks_of_a_dense_model_hold_it_each() -> None:
    target = a_known("Llama-3.1-8B")
    found = on_h100(target, without_weights(Method.NONE), Spread(data=4))
    assert found.weights == target.weight_bytes


def test_a_window_bounds_the_cache_of_a_layer() -> None:
    """18 layers of gpt-oss-120b keep 128 tokens, the others all: 2 x 8 heads x 64 x 2 bytes each."""
    target = a_known("gpt-oss-120b")
    assert target.cache_bytes(4096) == 18 * 2048 * (4096 + 128)
    assert target.cache_bytes(100) == 36 * 2048 * 100


def test_linear_attention_keeps_a_state_for_each_token_of_a_step_and_no_cache() -> None:
    """12 of the 48 layers of Qwen3-Next have full attention: a quarter of what all would keep."""
    target = a_known("Qwen3-Next-80B-A3B")
    assert target.cache_bytes_per_token == 48 * 2 * 2 * 256 * 2 / 4
    state = target.cache_bytes(0)
    assert state > 0
    assert target.cache_bytes(0, states=4) == 4 * state


def test_every_gpu_keeps_the_whole_latent() -> None:
    """61 layers of DeepSeek-V3: 512 numbers of the latent and 64 of the rotated key, of 2 bytes."""
    target = a_known("DeepSeek-V3")
    assert target.cache_bytes_per_token == 61 * (512 + 64) * 2
    none = without_weights(Method.NONE)
    one, eight = (on_h100(target, none, Spread(tensor=n)).cache_per_request for n in (1, 8))
    assert one == eight == 4096 * target.cache_bytes_per_token


def test_nothing_is_concluded_of_a_model_that_is_not_known() -> None:
    target = replace(a_known("Llama-3.1-8B"), unknown=("weights: quantisation of tomorrow",))
    for gigabytes in (1.0, 1000.0):
        found = replace(on_h100(target, a_drafter(target), Spread()), available=gigabytes * 1e9)
        assert found.verdict is Verdict.NOT_KNOWN


def test_a_drafter_of_unknown_size_leaves_open_what_fits_and_not_what_does_not() -> None:
    drafter = unknown_size(Method.DFLASH, "somebody's")
    for name, verdict in (("Llama-3.1-8B", Verdict.NOT_KNOWN), ("Llama-3.1-405B", Verdict.TOO_LARGE)):
        assert on_h100(a_known(name), drafter, Spread()).verdict is verdict


@given(tensor=st.integers(1, 8), pipeline=st.integers(1, 4), data=st.integers(1, 8))
def test_all_gpus_together_hold_the_weights_at_least_once(tensor: int, pipeline: int, data: int) -> None:
    target, spread = a_known("GLM-4.7"), Spread(tensor, pipeline, data)
    found = on_h100(target, without_weights(Method.NONE), spread)
    assert found.gpus == tensor * pipeline * data
    assert found.weights * found.gpus >= target.weight_bytes * (1 - 1e-9)


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
