"""Have the engines of a manifest room on the GPUs that it selects?"""

from __future__ import annotations

from typing import Any

import pytest

from outrider.api.spec import Spec
from outrider.api.weights import ArtifactStatus, WeightsStatus
from outrider.sizing.room import Shortage, shortage

LLAMA_70B = "hf://meta-llama/Llama-3.3-70B-Instruct"
L4, H100 = "NVIDIA-L4", "NVIDIA-H100-80GB-HBM3"


def found(
    uri: str = LLAMA_70B,
    *,
    product: str | None = H100,
    memory: str | None = None,
    files: str | None = None,
    share: float | None = 0.92,
    max_length: int | None = None,
    **more: Any,
) -> Shortage | None:
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": memory}
    selector = {label: value for label, value in labels.items() if value is not None}
    spec = Spec.model_validate(
        {
            "model": {"uri": uri, "maxLength": max_length},
            "speculation": {"method": "none"},
            "podTemplate": {"spec": {"nodeSelector": selector}},
            **more,
        }
    )
    there = None
    if files is not None:
        model = ArtifactStatus(uri=uri, revision="r", path="p", size=files)
        there = WeightsStatus(wanted="w", model=model)
    return shortage(spec, there, share=share)


def test_weights_that_are_more_than_the_gpu_has_are_certain_not_to_fit() -> None:
    short = found()
    assert short is not None
    assert short.certain
    assert "weights take 141.1 GB on each GPU, and NVIDIA-H100-80GB-HBM3 has 85.5 GB" in short.message
    assert "use at least 2 GPUs (spec.parallelism.tensor: 2)" in short.message


def test_only_a_number_of_gpus_that_divides_the_heads_is_proposed() -> None:
    """Qwen2.5-7B has 28 attention heads, so no engine of it starts on eight GPUs."""
    short = found("hf://Qwen/Qwen2.5-7B-Instruct", memory="4000")
    assert short is not None
    assert "use more GPUs" in short.message


def test_what_only_overhead_and_cache_make_too_large_is_a_warning_with_the_numbers() -> None:
    short = found("hf://Qwen/Qwen3-8B", product=L4, max_length=40960)
    assert short is not None
    assert not short.certain
    for part in (
        "weights 16.4 GB",
        "graphs and the rest 1.6 GB",
        "40960 tokens 6.0 GB",
        "22.2 GB of the 24.2 GB",
    ):
        assert part in short.message


def test_the_drafter_counts() -> None:
    head = {"method": "eagle3", "drafter": {"uri": "hf://x/head"}, "numSpeculativeTokens": 3}
    short = found("hf://Qwen/Qwen3-8B", product=L4, max_length=40960, speculation=head)
    assert short is not None
    assert "drafter 0." in short.message


@pytest.mark.parametrize(
    "parallelism",
    [{"tensor": 4}, {"tensor": 2, "pipeline": 2}],
)
def test_gpus_share_the_weights(parallelism: dict[str, int]) -> None:
    assert found(parallelism=parallelism) is None


def test_ranks_of_data_parallelism_hold_the_weights_each() -> None:
    short = found(parallelism={"data": 4})
    assert short is not None
    assert short.certain


def test_the_memory_that_a_node_tells_goes_before_the_table() -> None:
    assert found("hf://Qwen/Qwen3-8B", product=H100, memory="10240") is not None
    assert found("hf://Qwen/Qwen3-8B", product="NVIDIA-UNHEARD-OF", memory="81559") is None


@pytest.mark.parametrize(
    "unknown",
    [
        {"product": None},
        {"product": "NVIDIA-UNHEARD-OF"},
        {"uri": "hf://someone/unheard-of"},
        {"resources": {"limits": {"cpu": "4"}}},
        {"resources": {"limits": {"nvidia.com/mig-of-another-name": "1"}}},
        {"resources": {"claims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}},
        {"engine": {"args": {"quantization": "fp8"}}},
        {"engine": {"args": {"cpu_offload_gb": 80}}},
        {"engine": {"args": {"quant": "fp8"}}},
        {"memory": "plenty", "product": None},
    ],
    ids=str,
)
def test_nothing_is_said_of_what_is_not_known(unknown: dict[str, Any]) -> None:
    assert found(**unknown) is None


QWEN_8B = "hf://Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    "sliced",
    [
        {"product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"},
        {"product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "memory": "10240"},
        {"product": None, "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}},
        {"product": H100, "memory": "81559", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}},
    ],
    ids=["alike, by product", "alike, by memory", "mixed", "mixed, on an H100"],
)
def test_an_engine_on_a_slice_has_the_memory_of_the_slice(sliced: dict[str, Any]) -> None:
    short = found(QWEN_8B, **sliced)
    assert short is not None
    assert short.certain
    assert "weights take 16.4 GB on each GPU, and a MIG partition 1g.10gb has 10.7 GB" in short.message
    assert "use a larger MIG partition, a whole GPU, or quantised weights" in short.message


def test_an_estimate_for_a_slice_asks_for_no_second_one() -> None:
    limits = {"limits": {"nvidia.com/mig-2g.20gb": "1"}}
    short = found(QWEN_8B, product=None, resources=limits, max_length=40960)
    assert short is not None
    assert not short.certain
    assert "of a MIG partition 2g.20gb" in short.message
    assert "more GPUs" not in short.message


def test_a_slice_that_is_large_enough_is_no_trouble() -> None:
    assert found(QWEN_8B, product=None, resources={"limits": {"nvidia.com/mig-3g.40gb": "1"}}) is None


def test_a_name_alone_is_not_certain() -> None:
    short = found("pvc://models/Llama-3.3-70B-Instruct")
    assert short is not None
    assert not short.certain


def test_downloaded_files_that_agree_with_the_table_make_it_certain() -> None:
    short = found("hf://mirror/Llama-3.3-70B-Instruct", files="141.1 GB")
    assert short is not None
    assert short.certain


def test_smaller_files_than_the_name_says_are_of_quantised_weights() -> None:
    assert found(files="40.0 GB") is None


def test_an_estimate_is_not_told_beside_what_the_files_tell() -> None:
    weights: dict[str, Any] = {
        "uri": "pvc://models/Llama-3.3-70B-Instruct",
        "product": None,
        "memory": "143000",
    }
    assert found(**weights, max_length=131072) is not None
    assert found(**weights, max_length=131072, files="160.0 GB") is None


def test_of_an_engine_without_figures_only_weights_without_room_are_reported() -> None:
    with_figures, without = found(product=H100, max_length=8192), found(product=H100, share=None)
    assert with_figures is not None
    assert without is not None
    assert without.certain
    eight_b = "hf://meta-llama/Llama-3.1-8B-Instruct"
    assert found(eight_b, product=L4, max_length=131_072) is not None
    assert found(eight_b, product=L4, max_length=131_072, share=None) is None
