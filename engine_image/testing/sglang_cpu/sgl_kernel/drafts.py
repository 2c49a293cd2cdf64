"""Drafts of one chain per request: their order, and which of them the target accepts.

Shapes: batch ``b``, tokens to verify ``n``, that is the last token and its drafts.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


def build_tree_kernel_efficient_cpu(
    parent_list: torch.Tensor,  # noqa: ARG001  a chain has one parent each
    selected_index: torch.Tensor,  # noqa: ARG001
    verified_seq_len: torch.Tensor,
    tree_mask: torch.Tensor,
    positions: torch.Tensor,
    retrieve_index: torch.Tensor,
    retrieve_next_token: torch.Tensor,
    retrieve_next_sibling: torch.Tensor,  # noqa: ARG001  filled with -1 before
    topk: int,
    depth: int,  # noqa: ARG001
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Write the links between the tokens of each request.

    tree_mask: bool, ``b n n``. positions: ``b n``. retrieve_*: ``[b, n]``.

    Raises:
        NotImplementedError: the drafts are a tree, or the mask has another layout than query by query.
    """
    if topk != 1 or int(tree_mask_mode) != 1:
        raise NotImplementedError("the replacement of sgl_kernel has drafts of one chain only")
    batch, count = verified_seq_len.numel(), draft_token_num
    steps = torch.arange(count)
    positions.copy_((verified_seq_len.long()[:, None] + steps).flatten())
    retrieve_index.copy_(torch.arange(batch * count).view(batch, count))
    retrieve_next_token[:, :-1] = steps[1:]
    chain = torch.ones(count, count, dtype=torch.bool).tril()
    tree_mask[: batch * count * count].copy_(chain.expand(batch, -1, -1).flatten())


_FIRST_TOKEN, _TOKENS = 32, 95
"""The printable part of ASCII in byte-level tokenizers."""

drawn: Sequence[int] | None = None
"""In a simulated engine, how many drafts each request accepts in this round."""


def verify_tree_greedy_cpu(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,  # noqa: ARG001  a chain has none
    target_predict: torch.Tensor,
) -> None:
    """Accept drafts until the first that is not the target's most likely token.

    predicts: ``b n``, the tokens after each accepted one. accept_index: ``[b, n]``, -1 after the last
    accepted token. accept_token_num: ``[b]``, accepted drafts. candidates, target_predict: ``[b, n]``.
    """
    if drawn is not None:
        _accept(drawn, predicts, accept_index, accept_token_num, retrive_index)
        return
    for row in range(candidates.shape[0]):
        place, accepted = 0, 0
        accept_index[row, 0] = retrive_index[row, 0]
        while True:
            expected = target_predict[row, place]
            predicts[int(retrive_index[row, place])] = expected
            following = int(retrive_next_token[row, place])
            if following < 0 or candidates[row, following] != expected:
                break
            place, accepted = following, accepted + 1
            accept_index[row, accepted] = retrive_index[row, place]
        accept_token_num[row] = accepted


def _accept(
    counts: Sequence[int],
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    retrive_index: torch.Tensor,
) -> None:
    """Accept so many drafts of each request. Their tokens have no meaning; all are printable."""
    places = torch.arange(accept_index.shape[1])
    accepted = torch.tensor(counts)
    kept = places[None] <= accepted[:, None]
    accept_index.copy_(torch.where(kept, retrive_index, -1))
    accept_token_num.copy_(accepted)
    predicts.copy_(_FIRST_TOKEN + torch.arange(predicts.numel()) % _TOKENS)


def fill_bonus_tokens_cpu(
    accept_tokens: torch.Tensor, accept_lens: torch.Tensor, bonus_tokens: torch.Tensor, accept_stride: int
) -> None:
    """Write the last token of each request. accept_lens: ``[b]``, with that token."""
    last = torch.arange(accept_lens.numel()) * accept_stride + accept_lens.long() - 1
    bonus_tokens.copy_(accept_tokens.flatten()[last])


def fill_accept_out_cache_loc_cpu(
    accept_index: torch.Tensor, out_cache_loc: torch.Tensor, accept_out_cache_loc: torch.Tensor
) -> None:
    """Write the slots of the accepted tokens, without gaps."""
    found = out_cache_loc[accept_index[accept_index > -1].long()]
    accept_out_cache_loc[: found.numel()].copy_(found)


def rotate_input_ids_cpu(*_arguments: object) -> None:
    """For drafters of several layers, which the tests do not have.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("the replacement of sgl_kernel has no multi-layer EAGLE")
