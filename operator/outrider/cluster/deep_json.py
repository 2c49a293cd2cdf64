"""A recursion limit that allows reading every JSON document that the API server may hold."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_DEEPEST = 10_000
"""Levels that the API server accepts. Source: ``maxDepth`` in the JSON decoders of k8s.io/apimachinery."""
_CALLS_AROUND_IT = 2_000


@contextmanager
def room_for_deep_json() -> Iterator[None]:
    """Let this process read objects that are nested as deep as the API server allows.

    Python's parser stops at a tenth of that. One such object would then make whole lists unreadable and
    end every watch. A level needs about 200 bytes of a stack of 8 MiB.
    """
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEPEST + _CALLS_AROUND_IT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
