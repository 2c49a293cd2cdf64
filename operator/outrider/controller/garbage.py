"""Python's garbage collection, without long pauses of the loop.

References free nearly all memory. The collector frees cycles, and a full collection looks at every object:
0.13 s after the imports alone, and more with each model. So objects that survived a full collection are
frozen, and later ones look only at newer objects. Frozen objects are looked at again when the process needs
far more memory than ever before, because some of them may be garbage meanwhile.
"""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

GROWTH = 3.0
"""Ratio of the peak of memory to that of the last collection of everything, from which all is looked at."""
_FULL = 2


def peak_of_memory() -> int:
    """The most memory that the process ever had, in KiB on Linux and bytes on macOS. It never falls."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Survivors:
    """Freezes what survives each full collection, as a callback of `gc.callbacks`.

    Collections of everything are few in the life of a process, because a peak of memory seldom triples. The
    number of frozen objects cannot decide it, because Python counts them by looking at each one.

    peak: of the memory of this process, in any measure.
    """

    def __init__(self, peak: Callable[[], int] = peak_of_memory) -> None:
        self._peak = peak
        self._settled = 0
        """Peak at the last collection of everything."""
        self._everything = False

    def settle(self) -> None:
        """Collect everything now, and freeze it."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._settled = self._peak()

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """Before a full collection, let it look at everything if it is time; afterwards freeze the rest."""
        if info["generation"] < _FULL:
            return
        if phase == "start":
            self._everything = self._peak() > GROWTH * self._settled
            if self._everything:
                gc.unfreeze()
            return
        gc.freeze()
        if self._everything:
            self._settled = self._peak()


@contextmanager
def short_collections() -> Iterator[None]:
    """In the block, no full collection looks at objects that survived one before."""
    survivors = Survivors()
    survivors.settle()
    gc.callbacks.append(survivors)
    try:
        yield
    finally:
        gc.callbacks.remove(survivors)
        gc.unfreeze()
