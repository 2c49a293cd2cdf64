"""Slots of the paged cache: where drafts go, and moves between slots."""

from __future__ import annotations

import ctypes

import numpy as np
import torch


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,  # noqa: ARG001  the kernel's parameter
    topk: int,
    num_steps: int,
) -> None:
    """Write the slots of each request's next ``topk * num_steps`` positions, request by request."""
    offsets = torch.arange(topk * num_steps, device=seq_lens.device)
    positions = seq_lens.long()[:, None] + offsets
    out_cache_loc.copy_(req_to_token[req_pool_indices.long()[:, None], positions].flatten())


def assign_extend_cache_locs_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,  # noqa: ARG001  the kernel's parameter
) -> None:
    """Write the slots of each request's positions from start to end, one request after the other."""
    rows = zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True)
    slots = [req_to_token[row, start:end] for row, start, end in rows]
    found = torch.cat(slots) if slots else out_cache_loc[:0]
    out_cache_loc[: found.numel()].copy_(found)


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,  # noqa: ARG001  the kernel's parameter
) -> None:
    """The reverse of `assign_extend_cache_locs_cpu`: give each request's positions these slots."""
    begin = 0
    rows = zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True)
    for row, start, end in rows:
        req_to_token[row, start:end] = out_cache_loc[begin : begin + end - start].to(req_to_token.dtype)
        begin += end - start


def build_draft_decode_metadata_cpu(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,  # noqa: ARG001  the kernel's parameters
    topk: int,
    num_steps: int,  # noqa: ARG001
    pool_len: int,  # noqa: ARG001
) -> torch.Tensor:
    """The slots that each draft sees. In a chain these are the request's own.

    Raises:
        NotImplementedError: the drafts are a tree.
    """
    if topk != 1:
        raise NotImplementedError("the replacement of sgl_kernel has drafts of one chain only")
    return req_to_token[req_pool_indices.long()].contiguous()


def copy_all_layer_kv_cache_cpu(
    data_ptrs: torch.Tensor, strides: torch.Tensor, tgt_loc: torch.Tensor, src_loc: torch.Tensor
) -> None:
    """Copy slots in each buffer. data_ptrs: addresses of the buffers. strides: bytes per slot."""
    if not tgt_loc.numel():
        return
    targets, sources = tgt_loc.numpy(), src_loc.numpy()
    slots = int(max(targets.max(), sources.max())) + 1
    for address, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        memory = (ctypes.c_uint8 * (slots * stride)).from_address(address % 2**64)
        cells = np.frombuffer(memory, dtype=np.uint8).reshape(slots, stride)
        cells[targets] = cells[sources]
