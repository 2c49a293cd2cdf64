"""Waits of a run, which print how far they are."""

from __future__ import annotations

import time
from collections.abc import Callable

_LIMIT_SECONDS = 1800.0
"""For each of creation and restart. 300 models take 160 s on two cores."""
_PRINTED_SECONDS = 30.0


def until(what: str, wanted: int, seen: Callable[[], int]) -> float | None:
    """Seconds until so many are seen; None if there are not within the limit. It prints how far it is."""
    began = printed = time.monotonic()
    while (now := time.monotonic()) - began < _LIMIT_SECONDS:
        found = seen()
        if found >= wanted:
            return now - began
        if now - printed >= _PRINTED_SECONDS:
            print(f"{what}: {found} of {wanted} after {now - began:.0f} s", flush=True)
            printed = now
        # A look takes time of the machine that is measured.
        time.sleep(max(0.5, wanted / 500))
    return None
