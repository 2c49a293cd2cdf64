"""Sampled answers on a CPU come from the target's own distribution, with drafts as without.

Source: vLLM 0.26 to 0.33. `vllm.utils.cpu_triton_utils._expand_kernel_impl` spreads a value per request over
the request's draft tokens. For tensors of other types than int64 it writes into a copy that is never read.
Temperature, top-p and top-k of drafts are then arbitrary memory. Greedy requests do not use it, and a GPU has
another kernel.

`vllm.v1.sample.ops.topk_topp_sampler.apply_top_k_only` takes a maximum over the drafts of a step. It fails in
a step without drafts, such as one that computes a prompt. The first request with top-k and without top-p
would end the engine.
"""

from __future__ import annotations

from typing import Any

from outrider_engine.vllm_adapter.wrapping import wrap


def mend_on_cpu() -> None:
    """Replace vLLM's functions before its worker imports them. Other platforms stay as they are.

    Raises:
        ImportError, AttributeError: this vLLM lacks a function that the repair needs.
    """
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        import vllm.utils.cpu_triton_utils as kernels
        import vllm.v1.sample.ops.topk_topp_sampler as sampler

        mend(kernels)
        mend_top_k(sampler)


def mend(kernels: Any) -> None:
    """Let each draft have the parameters of its request. Repeated calls have no effect."""
    kernels._expand_kernel_impl = expand
    # Until 0.30 the module itself wraps the function for those who read it.
    wrapper = getattr(kernels, "expand_kernel", None)
    if wrapper is not None:
        wrapper.func = expand


def mend_top_k(sampler: Any) -> None:
    """Keep steps without drafts from vLLM's top-k. Repeated calls have no effect."""
    wrap(
        sampler,
        "apply_top_k_only",
        lambda original: lambda logits, k: original(logits, k) if len(k) else logits,
    )


def expand(
    output: Any,
    input_val: Any,
    cu_num_tokens: Any,
    replace_from: int,
    replace_to: int,
    MAX_NUM_TOKENS: int | None = None,  # noqa: ARG001, N803  the signature is that of the kernel
) -> None:
    """Write the value of each request to all of its tokens, with ``replace_to`` for ``replace_from``.

    cu_num_tokens: where the tokens of each request end.
    """
    lengths = cu_num_tokens.diff(prepend=cu_num_tokens.new_zeros(1))
    values = input_val.masked_fill(input_val == replace_from, replace_to)
    output[: cu_num_tokens[-1]] = values.repeat_interleave(lengths)
