"""Pods whose answers a test plays, below the limits that the operator sets them."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import cast

import aiohttp
import httpx

from outrider.transport import PodHttp

Answer = Callable[[httpx.Request], httpx.Response | Awaitable[httpx.Response]]


class _Content:
    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    async def iter_chunks(self) -> AsyncIterator[tuple[bytes, bool]]:
        async for piece in self._response.aiter_raw():
            yield piece, True


class _Response:
    def __init__(self, response: httpx.Response) -> None:
        self.status, self.headers, self.content = response.status_code, response.headers, _Content(response)


class _Session:
    """The part of aiohttp's session that `PodHttp` uses."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    @asynccontextmanager
    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str], data: bytes | None, allow_redirects: bool
    ) -> AsyncIterator[_Response]:
        assert not allow_redirects
        found = self._answer(httpx.Request(method, url, headers=dict(headers), content=data))
        yield _Response(await found if inspect.isawaitable(found) else found)

    async def close(self) -> None:
        pass


def played(answer: Answer) -> PodHttp:
    """A client to which every pod answers like this; what it raises, HTTP has raised."""
    return PodHttp(lambda: cast(aiohttp.ClientSession, _Session(answer)))
