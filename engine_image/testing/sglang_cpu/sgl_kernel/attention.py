"""Attention over the paged cache: ``torch.ops.sgl_kernel.extend_attention_cpu`` and ``decode_attention_cpu``.

Shapes: q ``[tokens, heads, size]``; k, v ``[tokens, kv heads, size]``; cache ``[slots, kv heads, size]``;
req_to_token ``[requests, positions]``, the slot of each position; out like q, written in place.
"""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention

_EXTEND = """extend_attention_cpu(
    Tensor q, Tensor? k, Tensor? v, Tensor(a!) out, Tensor k_cache, Tensor v_cache, float k_scale,
    float v_scale, Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens, Tensor extend_seq_lens,
    Tensor extend_start_loc, int max_extend_len, float scaling, float logit_cap, bool is_cross_attention,
    int sliding_window, Tensor? encoder_lens, Tensor? sinks, Tensor? tree_mask, bool is_causal) -> ()"""
_DECODE = """decode_attention_cpu(
    Tensor q, Tensor(a!) k_cache, Tensor(b!) v_cache, float k_scale, float v_scale, Tensor(c!) out, Tensor? k,
    Tensor? v, Tensor cache_loc, Tensor attn_logits, Tensor req_to_token, Tensor req_pool_indices,
    Tensor seq_lens, float scaling, float logit_cap, bool is_cross_attention, int sliding_window,
    Tensor? encoder_lens, Tensor? sinks) -> ()"""


def _attend(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float, visible: torch.Tensor | None
) -> torch.Tensor:
    """Attention of one request. visible: ``[queries, keys]``; None: every query sees all keys."""
    answer = scaled_dot_product_attention(
        q.transpose(0, 1)[None],
        keys.transpose(0, 1)[None].to(q.dtype),
        values.transpose(0, 1)[None].to(q.dtype),
        attn_mask=visible,
        scale=scaling,
        enable_gqa=q.shape[1] != keys.shape[1],
    )
    return answer[0].transpose(0, 1)


def _extend(
    q: torch.Tensor,
    k: torch.Tensor | None,  # noqa: ARG001  in the cache already
    v: torch.Tensor | None,  # noqa: ARG001
    out: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k_scale: float,  # noqa: ARG001
    v_scale: float,  # noqa: ARG001
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    extend_seq_lens: torch.Tensor,
    extend_start_loc: torch.Tensor,
    max_extend_len: int,  # noqa: ARG001
    scaling: float,
    logit_cap: float,
    is_cross_attention: bool,
    sliding_window: int,
    encoder_lens: torch.Tensor | None,  # noqa: ARG001
    sinks: torch.Tensor | None,
    tree_mask: torch.Tensor | None,
    is_causal: bool,
) -> None:
    """Several queries per request, the last ones of its sequence."""
    plain = not logit_cap and not is_cross_attention and sliding_window <= 0 and is_causal
    if not plain or sinks is not None or tree_mask is not None:
        raise NotImplementedError("the replacement of sgl_kernel has causal attention only")
    lengths, queries, starts = seq_lens.tolist(), extend_seq_lens.tolist(), extend_start_loc.tolist()
    for row, length, count, start in zip(req_pool_indices.tolist(), lengths, queries, starts, strict=True):
        slots = req_to_token[row, :length].long()
        visible = torch.ones(count, length, dtype=torch.bool).tril(length - count)
        part = slice(start, start + count)
        out[part] = _attend(q[part], k_cache[slots], v_cache[slots], scaling, visible)


def _decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k_scale: float,  # noqa: ARG001
    v_scale: float,  # noqa: ARG001
    out: torch.Tensor,
    k: torch.Tensor | None,
    v: torch.Tensor | None,
    cache_loc: torch.Tensor,
    attn_logits: torch.Tensor,  # noqa: ARG001
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    scaling: float,
    logit_cap: float,
    is_cross_attention: bool,
    sliding_window: int,
    encoder_lens: torch.Tensor | None,  # noqa: ARG001
    sinks: torch.Tensor | None,
) -> None:
    """One query per request. The kernel also stores its key and value."""
    if logit_cap or is_cross_attention or sliding_window > 0 or sinks is not None:
        raise NotImplementedError("the replacement of sgl_kernel has plain attention only")
    if k is not None and v is not None:
        k_cache[cache_loc.long()] = k.view(-1, *k_cache.shape[1:]).to(k_cache.dtype)
        v_cache[cache_loc.long()] = v.view(-1, *v_cache.shape[1:]).to(v_cache.dtype)
    for place, (row, length) in enumerate(zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True)):
        slots = req_to_token[row, :length].long()
        out[place : place + 1] = _attend(q[place : place + 1], k_cache[slots], v_cache[slots], scaling, None)


_LIBRARY = torch.library.Library("sgl_kernel", "DEF")
for _schema, _kernel in ((_EXTEND, _extend), (_DECODE, _decode)):
    _LIBRARY.impl(_LIBRARY.define(_schema), _kernel, "CPU")
