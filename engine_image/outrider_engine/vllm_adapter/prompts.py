"""How much of a step is prompt, read from what vLLM's scheduler gave."""

from __future__ import annotations

from typing import Any


def prefill_tokens(output: Any) -> int:
    """Computed tokens of this step that were known before.

    A decoding request computes one token beside its drafts, and a request without output is a prompt."""
    tokens, new, cached = output.num_scheduled_tokens, output.scheduled_new_reqs, output.scheduled_cached_reqs
    drafts = output.scheduled_spec_decode_tokens
    decoding = len(tokens) + sum(map(len, drafts.values()))
    if output.total_num_scheduled_tokens == decoding and not new and 0 not in cached.num_output_tokens:
        return 0
    prefill: int = sum(tokens[request.req_id] for request in new)
    for request_id, outputs in zip(cached.req_ids, cached.num_output_tokens, strict=True):
        computed = tokens[request_id]
        if outputs == 0 or computed - len(drafts.get(request_id, ())) > 1:
            prefill += computed
    return prefill
