"""A replacement of SGLang's compiled kernels for its CPU backend, in PyTorch.

It has the kernels of a Llama with an EAGLE head that drafts one chain, ``--speculative-eagle-topk 1``. Names
and parameters are those of ``sglang-kernel`` 0.4.10, as SGLang 0.5.23 calls them:
``sglang/kernels/ops/speculative``, ``sglang/kernels/ops/kvcache/cache_move.py`` and
``sglang/srt/layers/attention/intel_amx_backend.py``.
"""

from sgl_kernel import attention
from sgl_kernel.cache import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    build_draft_decode_metadata_cpu,
    copy_all_layer_kv_cache_cpu,
)
from sgl_kernel.drafts import (
    build_tree_kernel_efficient_cpu,
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
    rotate_input_ids_cpu,
    verify_tree_greedy_cpu,
)

__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "attention",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "rotate_input_ids_cpu",
    "verify_tree_greedy_cpu",
]
