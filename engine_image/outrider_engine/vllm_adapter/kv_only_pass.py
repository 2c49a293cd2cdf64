"""Ends a pass of a drafter of one layer as soon as the KV cache has its tokens.

Runs in vLLM's workers. Source: vLLM 0.32.0. A pass over missed tokens drafts nothing, so it serves the
cache alone. `vllm.model_executor.layers.attention.attention.Attention` writes it and then calls its
``impl``. The rest of a layer, attention and feed-forward, is most of its work, and only the next layer
would read it. Where a captured graph calls no ``impl`` the pass runs to its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any


class _Written(Exception):
    """The KV cache has the tokens of this pass."""


@contextmanager
def kv_only_pass(layers: Collection[str], vllm_config: Any) -> Iterator[None]:
    """Within, a pass of the drafter ends where its layer would attend; the call that made it ends, too.

    layers: names of the drafter's attention layers.
    """
    attending = _of_the_only_layer(layers, vllm_config)
    if attending is None:
        yield
        return
    attending.forward = _end
    try:
        yield
    except _Written:
        pass
    finally:
        del attending.forward


def _end(*_: Any, **__: Any) -> None:
    raise _Written


def _of_the_only_layer(layers: Collection[str], vllm_config: Any) -> Any | None:
    """What attends in a drafter of one layer that has written the cache before; None for another drafter."""
    if len(layers) != 1:
        return None
    layer = vllm_config.compilation_config.static_forward_context[next(iter(layers))]
    return None if layer.attn_backend.forward_includes_kv_cache_update else layer.impl
