"""Where vLLM's own function is replaced. tests/contract/test_sampling.py has what it computes."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from outrider_engine.plugin import register
from outrider_engine.vllm_adapter import cpu_sampling, engine_core
from outrider_engine.vllm_adapter.cpu_sampling import expand, mend, mend_on_cpu, mend_top_k

KERNELS = "vllm.utils.cpu_triton_utils"
SAMPLER = "vllm.v1.sample.ops.topk_topp_sampler"


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the kernels, in a vLLM that has nothing but what is mended."""
    parents = ("vllm", "vllm.platforms", "vllm.utils", "vllm.v1", "vllm.v1.sample", "vllm.v1.sample.ops")
    for name in (*parents, KERNELS, SAMPLER):
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, last = name.rpartition(".")
        if parent:
            vars(sys.modules[parent])[last] = module
    vars(sys.modules[KERNELS])["_expand_kernel_impl"] = vllms_own
    vars(sys.modules[SAMPLER])["apply_top_k_only"] = top_k_of_some
    return sys.modules[KERNELS]


def vllms_own() -> None: ...


def top_k_of_some(logits: list[str], k: list[int]) -> list[str]:
    """As vLLM's own: no maximum of nothing."""
    return [f"{logit} of {max(k)}" for logit in logits]


def run_on(*, cpu: bool) -> None:
    platform = SimpleNamespace(is_cpu=lambda: cpu)
    vars(sys.modules["vllm.platforms"])["current_platform"] = platform


@pytest.mark.usefixtures("kernels")
def test_top_k_is_asked_of_drafts_alone() -> None:
    run_on(cpu=True)
    mend_on_cpu()
    top_k = sys.modules[SAMPLER].apply_top_k_only
    assert top_k([], []) == []
    assert top_k(["a", "b"], [3, 5]) == ["a of 5", "b of 5"]


def test_mending_top_k_twice_wraps_once() -> None:
    sampler = SimpleNamespace(apply_top_k_only=top_k_of_some)
    mend_top_k(sampler)
    once = sampler.apply_top_k_only
    mend_top_k(sampler)
    assert sampler.apply_top_k_only is once


@pytest.mark.parametrize(("cpu", "function"), [(True, expand), (False, vllms_own)], ids=["CPU", "GPU"])
def test_the_function_is_replaced_on_a_cpu_alone(kernels: ModuleType, cpu: bool, function: object) -> None:
    run_on(cpu=cpu)
    mend_on_cpu()
    assert kernels._expand_kernel_impl is function


def test_on_a_gpu_nothing_of_it_is_even_imported(
    kernels: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_on(cpu=False)
    for name in (kernels.__name__, SAMPLER):
        monkeypatch.setitem(sys.modules, name, None)
    mend_on_cpu()


def test_a_release_that_wraps_the_function_gets_it_in_the_wrapper_too() -> None:
    wrapper = SimpleNamespace(func=vllms_own)
    mend(SimpleNamespace(_expand_kernel_impl=vllms_own, expand_kernel=wrapper))
    assert wrapper.func is expand


def test_the_plugin_mends_even_where_it_cannot_control(kernels: ModuleType) -> None:
    run_on(cpu=True)
    register()
    assert kernels._expand_kernel_impl is expand


def test_a_mend_that_fails_is_told_and_leaves_the_control(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attached: list[bool] = []

    def fail() -> None:
        raise ImportError("no such module")

    monkeypatch.setattr(engine_core, "attach_to_engine_core", lambda: attached.append(True))
    monkeypatch.setattr(cpu_sampling, "mend_on_cpu", fail)
    register()
    assert attached
    assert "sampling with drafts may be wrong" in caplog.text
