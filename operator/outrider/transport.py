"""HTTP to engine pods, the same for the control API and for scrapes.

A pod may run anything, so the client trusts no answer. It counts bytes and chunks as they arrive. It never
decompresses, follows no redirects and keeps no cookies. aiohttp accepts 128 headers of up to 8 KiB, and the
caller limits the time of the whole answer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp.client_proto import ResponseHandler

from outrider.api.text import shortened

IDLE_SECONDS = 3.0
"""vLLM's server closes a connection after 5 s without requests, and a request at that moment is lost."""

_PLAIN = ("", "identity")
"""Content encodings without compression. Stacked compressions can expand an answer a million times."""


_FREE_PIECES = 64
_LEAST_BYTES_OF_A_PIECE = 512
"""Minimum mean size of a chunk. Each chunk costs CPU time, and the smallest network packets carry more."""


_MOST_OF_A_CLAUSE = 200
"""Characters. aiohttp quotes the bytes that it cannot read."""


class AnswerRefused(ValueError):
    """An answer that the client refuses: too large, in too many chunks, or compressed."""


class NoAnswer(ConnectionError):
    """No complete answer: refused, reset, cut off, or not HTTP. The text is a clause for a message."""


class Unwritable(ValueError):
    """A request that HTTP cannot represent, such as one to an address that is none."""


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """A whole answer."""

    status: int
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is one of 2xx."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES


class _Connector(aiohttp.TCPConnector):
    """Leaves no cyclic garbage where a connection was closed.

    asyncio's transport refers to itself by a bound method. The garbage collector of the operator looks at
    frozen objects seldom, so each connection that was open at a collection would take memory for hours.
    """

    async def _wrap_create_connection(
        self, *args: Any, **options: Any
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        transport, handler = await super()._wrap_create_connection(*args, **options)
        closed = handler.closed
        if closed is not None:
            closed.add_done_callback(lambda _: setattr(transport, "_read_ready_cb", None))
        return transport, handler


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        # Silent pods must not use up connections that other pods need. aiohttp keeps connections by
        # address, so no request looks at those of other pods.
        connector=_Connector(limit=0, keepalive_timeout=IDLE_SECONDS, use_dns_cache=False),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        # The client reaches a pod by its address, never through a proxy of the environment.
        trust_env=False,
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
    )


class PodHttp:
    """Client of all pods, without a timeout; the caller limits the time of each whole answer.

    It opens at the first request and belongs to the loop of that one.
    session: for tests; by default real HTTP.
    """

    def __init__(self, session: Callable[[], aiohttp.ClientSession] = _session) -> None:
        self._make = session
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections. Later requests raise RuntimeError."""
        session = self._session = self._session or self._make()
        await session.close()

    async def ask(
        self,
        method: str,
        url: str,
        *,
        most_bytes: int,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> PodAnswer:
        """Send one request and return its answer, whatever its status. The caller limits the time.

        body: JSON, or empty.

        Raises:
            AnswerRefused: more than `most_bytes`, in chunks of a few bytes, or compressed.
            NoAnswer: no complete answer.
            Unwritable: the address or a header is none in HTTP.
        """
        sent = {**(headers or {}), **({"Content-Type": "application/json"} if body else {})}
        session = self._session = self._session or self._make()
        try:
            async with session.request(
                method, url, headers=sent, data=body or None, allow_redirects=False
            ) as response:
                return PodAnswer(response.status, await _content(response, most_bytes))
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, UnicodeEncodeError) as error:
            raise Unwritable(f"{type(error).__name__}: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswer(_clause(error)) from error


async def _content(response: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in _PLAIN:
        raise AnswerRefused(f"the answer is compressed ({encoding[:40]}), although the request forbade it")
    content, pieces = bytearray(), 0
    async for piece, _ in response.content.iter_chunks():
        content += piece
        pieces += 1
        if len(content) > most_bytes:
            raise AnswerRefused(f"the answer is larger than {most_bytes} bytes")
        if pieces > _FREE_PIECES + len(content) // _LEAST_BYTES_OF_A_PIECE:
            raise AnswerRefused(f"the answer comes in chunks of {len(content) // pieces} bytes")
    return bytes(content)


def _clause(error: Exception) -> str:
    """The cause without the address, which the reader of a pod's message knows."""
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        return f"cannot connect: {os.strerror(cause.errno) if cause.errno else cause}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the pod closed the connection without an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer is not complete"
    text = f"{type(error).__name__}: {error}".removesuffix(": ")
    if isinstance(error, aiohttp.ClientResponseError):
        text = f"the answer is not HTTP: {error.message}"
    return shortened(" ".join(text.split()), _MOST_OF_A_CLAUSE)
