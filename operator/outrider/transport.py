"""HTTP to engine pods, the same for the control API and for scrapes.

A pod may run anything, so the client trusts no answer. It counts bytes and chunks as they arrive. It never
decompresses, follows no redirects and keeps no cookies. h11 limits headers to 100 KiB, and the caller limits
the time of the whole answer.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

IDLE_SECONDS = 3.0
"""vLLM's server closes a connection after 5 s without requests, and a request at that moment is lost."""

_PLAIN = ("", "identity")
"""Content encodings without compression. Stacked compressions can expand an answer a million times."""


_FREE_PIECES = 64
_LEAST_BYTES_OF_A_PIECE = 512
"""Minimum mean size of a chunk. Each chunk costs CPU time, and the smallest network packets carry more."""


class AnswerRefused(ValueError):
    """An answer that the client refuses: too large, in too many chunks, or compressed."""


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """A whole answer."""

    status: int
    content: bytes


def pod_http(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """Return a client without a timeout; the caller limits the time of each whole answer.

    transport: for tests; by default real HTTP.
    """
    # The client reaches a pod by its address, never through a proxy of the environment. Silent pods must
    # not use up connections that other pods need.
    limits = httpx.Limits(max_connections=None, keepalive_expiry=IDLE_SECONDS)
    return httpx.AsyncClient(
        timeout=None,
        transport=transport,
        trust_env=False,
        limits=limits,
        # Pods serve plain HTTP. An empty TLS context avoids loading the usual authorities, which takes tens
        # of milliseconds per client.
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        headers={"Accept-Encoding": "identity"},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
    )


async def ask_pod(
    http: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    most_bytes: int,
    auth: httpx.Auth | None = None,
    body: Mapping[str, object] | None = None,
) -> PodAnswer:
    """Send one request and return its answer, whatever its status. The caller limits the time.

    auth: signs the request.
    body: sent as JSON.

    Raises:
        AnswerRefused: more than `most_bytes`, in chunks of a few bytes, or compressed.
        httpx.TransportError: no complete answer.
    """
    content = bytearray()
    async with http.stream(method, url, json=body, auth=auth) as response:
        encoding = response.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in _PLAIN:
            raise AnswerRefused(
                f"the answer is compressed ({encoding[:40]}), although the request forbade it"
            )
        pieces = 0
        async for piece in response.aiter_raw():
            content += piece
            pieces += 1
            if len(content) > most_bytes:
                raise AnswerRefused(f"the answer is larger than {most_bytes} bytes")
            if pieces > _FREE_PIECES + len(content) // _LEAST_BYTES_OF_A_PIECE:
                raise AnswerRefused(f"the answer comes in chunks of {len(content) // pieces} bytes")
    return PodAnswer(response.status_code, bytes(content))
