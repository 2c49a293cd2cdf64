"""A plugin for vLLM, for one test: synthetic acceptance on CPU, which vLLM has for GPUs only.

The same steps as the Triton kernel `rejection_greedy_sample_kernel` in
`vllm/v1/sample/rejection_sampler.py`. All that counts drafts and acceptance is vLLM's own. See
`helper_plugins`.
"""

from __future__ import annotations

from typing import Any

NAME = "synthetic_sampler"


def register() -> None:
    """Put this kernel in the place of the CPU's, before the platform takes hold of it."""
    from vllm.utils import cpu_triton_utils

    from outrider_engine.startup import readiness

    cpu_triton_utils._rejection_greedy_sample_kernel_impl = sample
    readiness.part_at_a_tie = _answers_differ_by_design  # type: ignore[assignment]


async def _answers_differ_by_design(*_: object) -> bool:
    """For the self-test, which would refuse every K of an engine that accepts by chance."""
    return True


def sample(
    output_token_ids: Any,
    cu_num_draft_tokens: Any,
    draft_token_ids: Any,
    target_argmax: Any,
    bonus_token_ids: Any,
    is_greedy: Any,  # noqa: ARG001  the signature is that of the kernel
    max_spec_len: int,  # noqa: ARG001
    uniform_probs: Any = None,
    synthetic_conditional_rates: Any = None,
    SYNTHETIC_MODE: bool = False,  # noqa: ARG001, N803
) -> None:
    """Accept draft tokens by chance, one after the other, until the first is rejected."""
    drafts, best, bonus = (t.flatten().tolist() for t in (draft_token_ids, target_argmax, bonus_token_ids))
    chances, rates = uniform_probs.tolist(), synthetic_conditional_rates.tolist()
    begin = 0
    for row, end in enumerate(cu_num_draft_tokens.tolist()):
        tokens: list[int] = []
        for position, index in enumerate(range(begin, end)):
            accepted = chances[index] < rates[position] and drafts[index] >= 0
            tokens.append(drafts[index] if accepted else best[index])
            if not accepted:
                break
        else:
            tokens.append(bonus[row])
        output_token_ids[row, : len(tokens)] = output_token_ids.new_tensor(tokens)
        begin = end
