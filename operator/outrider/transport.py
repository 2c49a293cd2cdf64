"""HTTP to engine pods, the same for the control API and for scrapes.

A pod may run anything, so nothing that it answers is taken on trust: its size and its pieces are counted as
they arrive, it is never unpacked, redirects are not followed and cookies not kept. Headers are bounded
by h11 (100 KiB), and time by the caller, over the whole answer.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

IDLE_SECONDS = 3.0
"""vLLM's server closes a connection that was idle for 5 s; a request that crosses the close is lost."""

_PLAIN = ("", "identity")
"""Content encodings whose size is the size that arrives; a stack of others unpacks a million times over."""


_FREE_PIECES = 64
_LEAST_BYTES_OF_A_PIECE = 512
"""A piece costs CPU time, however small it is. A network's smallest packets carry more than this."""


class AnswerRefused(ValueError):
    """An answer that is not read: too large, in too many pieces, or in an encoding that was not asked for."""


@dataclass(frozen=True, slots=True)
class PodAnswer:
    """A whole answer."""

    status: int
    content: bytes


def pod_http(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """A client without a timeout of its own: its user bounds each whole answer.

    transport: for tests; by default real HTTP.
    """
    # A pod is reached by its own address, never through a proxy of the environment. Silent pods must not
    # use up connections that others wait for.
    limits = httpx.Limits(max_connections=None, keepalive_expiry=IDLE_SECONDS)
    return httpx.AsyncClient(
        timeout=None,
        transport=transport,
        trust_env=False,
        limits=limits,
        # Pods are asked over plain HTTP. What trusts nobody is made in no time, where the usual list of
        # authorities takes tens of milliseconds for each client.
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
    """One request of `pod_http`, whatever the status of its answer. The caller bounds the time.

    auth: what signs the request.
    body: sent as JSON.

    Raises:
        AnswerRefused: more than `most_bytes`, in pieces of a few bytes, or compressed.
        httpx.TransportError: no whole answer.
    """
    content = bytearray()
    async with http.stream(method, url, json=body, auth=auth) as response:
        encoding = response.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in _PLAIN:
            raise AnswerRefused(f"the answer is compressed ({encoding[:40]}), which was not asked for")
        pieces = 0
        async for piece in response.aiter_raw():
            content += piece
            pieces += 1
            if len(content) > most_bytes:
                raise AnswerRefused(f"the answer is larger than {most_bytes} bytes")
            if pieces > _FREE_PIECES + len(content) // _LEAST_BYTES_OF_A_PIECE:
                raise AnswerRefused(f"the answer comes in pieces of {len(content) // pieces} bytes")
    return PodAnswer(response.status_code, bytes(content))
