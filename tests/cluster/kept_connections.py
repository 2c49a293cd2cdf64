"""Clients of three libraries that keep their connections open, as every OpenAI client does.

Runs in a pod on its own. Each stream asks one request after the other, streamed or not, from the pool of
its library, until standard input ends. It prints a line once every stream had an answer, and one JSON
object at the end: ``{"requests": {"httpx": n, …}, "failed": ["…"]}``. Nothing is sent twice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import aiohttp
import httpx
import requests

Body = dict[str, Any]
Post = Callable[[Body], tuple[int, str]]
"""Sends a request from the pool, and gives the status and text of its answer."""

TOKENS = 32
SECONDS = 60.0
"""Within which an answer is whole."""
EVERY_STREAM_ANSWERED = "every stream had an answer"


def with_httpx(url: str) -> Post:
    """From one pool of httpx."""
    client = httpx.Client(timeout=SECONDS)

    def post(body: Body) -> tuple[int, str]:
        response = client.post(url, json=body)
        return response.status_code, response.text

    return post


def with_requests(url: str) -> Post:
    """From one pool of urllib3, as requests sets it up."""
    session = requests.Session()

    def post(body: Body) -> tuple[int, str]:
        response = session.post(url, json=body, timeout=SECONDS)
        return response.status_code, response.text

    return post


def with_aiohttp(url: str) -> Post:
    """From one pool of aiohttp, on an event loop of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    async def connect() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(SECONDS))

    session = asyncio.run_coroutine_threadsafe(connect(), loop).result()

    async def ask(body: Body) -> tuple[int, str]:
        async with session.post(url, json=body) as response:
            return response.status, await response.text()

    return lambda body: asyncio.run_coroutine_threadsafe(ask(body), loop).result()


LIBRARIES = {"httpx": with_httpx, "requests": with_requests, "aiohttp": with_aiohttp}


class Clients:
    """Streams that ask until they are stopped, and what came of it."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._over = threading.Event()
        self.requests: Counter[str] = Counter()
        self.failed: list[str] = []

    def stop(self) -> None:
        """The answers that are under way are the last ones."""
        self._over.set()

    def ask(self, library: str, post: Post, *, streamed: bool, answered: threading.Barrier) -> None:
        """One request after the other; the barrier falls with the first answer of the last stream."""
        asked = 0
        while not self._over.is_set():
            asked += 1
            try:
                status, text = post(self._body(asked, streamed=streamed))
                fault = "" if status == httpx.codes.OK and is_whole(text) else f"HTTP {status} {text[:300]!r}"
            except Exception as error:  # noqa: BLE001  whatever a library raises is a lost request
                fault = f"{type(error).__name__}: {error}"
            self.requests[library] += 1
            if fault:
                self.failed.append(f"{library}, {'streamed' if streamed else 'at once'}: {fault}")
            if asked == 1:
                answered.wait()

    def _body(self, asked: int, *, streamed: bool) -> Body:
        prompt = f"def f{asked}(x):\n    return "
        asks: Body = {"model": self._model, "prompt": prompt, "max_tokens": TOKENS, "ignore_eos": True}
        return {
            **asks,
            "stream": streamed,
            **({"stream_options": {"include_usage": True}} if streamed else {}),
        }


def is_whole(text: str) -> bool:
    """Whether an answer has all its tokens, and its end."""
    *_, usage, end = text.split("data: ") if text.startswith("data: ") else (text, "[DONE]")
    counted: int = json.loads(usage)["usage"]["completion_tokens"]
    return (counted, end.strip()) == (TOKENS, "[DONE]")


def main() -> None:
    """Ask until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="OpenAI base, such as http://service/v1")
    parser.add_argument("--model", required=True)
    parser.add_argument("--streams", type=int, required=True)
    given = parser.parse_args()
    clients = Clients(given.model)
    pools = {name: make(f"{given.url}/completions") for name, make in LIBRARIES.items()}
    kinds = list(product(pools, (True, False)))
    answered = threading.Barrier(given.streams, action=lambda: print(EVERY_STREAM_ANSWERED, flush=True))
    threads = []
    for number in range(given.streams):
        library, streamed = kinds[number % len(kinds)]
        wanted = {"streamed": streamed, "answered": answered}
        threads.append(threading.Thread(target=clients.ask, args=(library, pools[library]), kwargs=wanted))
    for thread in threads:
        thread.start()
    sys.stdin.read()
    clients.stop()
    for thread in threads:
        thread.join()
    print(json.dumps({"requests": clients.requests, "failed": clients.failed}), flush=True)


if __name__ == "__main__":
    main()
