"""Short turns of threads, so that the event loop does not wait long for Python's lock.

The loop releases the lock at each write to a socket. While another thread computes, such as that of the
watches, each release then costs a whole turn of that thread: by default 5 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 0.0005


@contextmanager
def short_turns() -> Iterator[None]:
    """In the block, a thread gives the lock back after `SECONDS` if another one waits for it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
