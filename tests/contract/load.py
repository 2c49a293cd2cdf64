"""Clients that keep an engine busy while a test does something else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from tests.contract.engine import Engine

TOKENS = 48


@contextmanager
def busy(engine: Engine, *, streams: int) -> Iterator[list[str]]:
    """So many clients ask one request after the other until the block ends.

    The list fills with how each request ended; a request that fails raises at the end of the block.
    """
    stop, ends = threading.Event(), list[str]()

    def client(name: int) -> None:
        asked = 0
        while not stop.is_set():
            asked += 1
            answer = engine.complete(max_tokens=TOKENS, prompt=f"def f{name}_{asked}(x):\n    return ")
            ends.append(finish(answer))

    with ThreadPoolExecutor(streams) as pool:
        clients: list[Future[None]] = [pool.submit(client, name) for name in range(streams)]
        try:
            yield ends
        finally:
            stop.set()
    for each in clients:
        each.result()


def finish(answer: dict[str, object]) -> str:
    """``length of 48`` for a whole answer."""
    match answer:
        case {"choices": [{"finish_reason": str(reason)}], "usage": {"completion_tokens": int(tokens)}}:
            return f"{reason} of {tokens}"
    raise AssertionError(f"no completion: {answer}")


WHOLE = f"length of {TOKENS}"
