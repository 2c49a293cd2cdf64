"""One answer of Prometheus' HTTP API, within a time and a size that are bounded from the lookup on."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import httpx

from outrider.api.text import shortened
from outrider.telemetry.source import (
    AnswerMalformed,
    AnswerTooLarge,
    SourceRefused,
    SourceUnreachable,
)

_PIECE_BYTES = 64 * 1024
"""Unpacked at a time."""
_LONGEST_MESSAGE = 300
_ENCODINGS = ("", "identity", "gzip")
"""Of answers. One layer is unpacked piece by piece; stacks are refused."""
_LOGIN = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
_STEPS = {
    "connection.connect_tcp": "looking up the name and connecting",
    "connection.start_tls": "TLS",
    "http11.send_request_headers": "sending the query",
    "http11.receive_response_headers": "waiting for the headers of the answer",
    "http11.receive_response_body": "reading the answer",
}
"""What httpx does, by its own names."""


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """How to reach Prometheus. With both a token and a user name the token wins.

    Raises:
        ValueError: no HTTP URL, or one with credentials in it: those would show up in logs.
    """

    url: str
    timeout_seconds: float = 5.0  # for the whole answer
    max_response_bytes: int = 8 * 1024 * 1024  # after decompression; read, it takes ten times as much memory
    bearer_token_file: Path | None = None  # read at every call, so a rotated token works
    username: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None  # None: the system's

    def __post_init__(self) -> None:
        url = urlsplit(self.url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError("the Prometheus URL must start with http:// or https:// and name a host")
        if "@" in url.netloc:
            raise ValueError(
                "the Prometheus URL must not carry credentials; give a user name and a password file"
            )


class Result(NamedTuple):
    """`data.result` of an answer, unchecked, and the bytes of the whole answer."""

    rows: object
    size: int


class PrometheusHttp:
    """Instant queries, one at a time. For one fetch: a certificate of the authority is read at its start.

    Raises:
        SourceRefused: the file of the authority cannot be read.
    """

    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings
        self._step = ""
        self._http = httpx.AsyncClient(
            timeout=None,  # the whole answer has one
            trust_env=False,  # a .netrc or proxy variable must not change who is asked, or as whom
            verify=_authorities(settings.ca_file),
            headers={"Accept-Encoding": "gzip"},
            follow_redirects=True,
            max_redirects=3,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    @property
    def most_bytes(self) -> int:
        """Of one answer."""
        return self._settings.max_response_bytes

    async def ask(self, promql: str) -> Result:
        """`data.result` of the answer.

        Raises:
            MetricsError: there is none, with the reason.
        """
        seconds = self._settings.timeout_seconds
        self._step = "connecting"
        try:
            async with asyncio.timeout(seconds):
                status, body = await self._read(promql)
        except TimeoutError as error:
            raise self._unreachable(f"no whole answer within {seconds:g} s: {self._step}") from error
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            raise self._unreachable(_cause(error)) from error
        return Result(_result(status, body), len(body))

    async def _read(self, promql: str) -> tuple[int, bytes]:
        url = f"{self._settings.url.rstrip('/')}/api/v1/query"
        async with self._http.stream(
            "GET", url, params={"query": promql}, auth=self._login(), extensions={"trace": self._note_step}
        ) as response:
            encoding = response.headers.get("Content-Encoding", "").strip().lower()
            if encoding not in _ENCODINGS:
                raise AnswerMalformed(
                    f"the answer is compressed in a way that was not asked for: {_short(encoding)}",
                    action="Check what answers between the operator and Prometheus.",
                )
            body = _Body(self._settings.max_response_bytes, packed=encoding == "gzip")
            async for piece in response.aiter_raw(_PIECE_BYTES):
                body.add(piece)
            return response.status_code, body.whole

    async def _note_step(self, event: str, _: object) -> None:
        step, _, what = event.rpartition(".")
        if what == "started":
            self._step = _STEPS.get(step, self._step)

    def _login(self) -> httpx.Auth | Callable[[httpx.Request], httpx.Request] | None:
        """Credentials, read anew."""
        settings = self._settings
        if settings.bearer_token_file:
            token = _secret(settings.bearer_token_file)

            def bear(request: httpx.Request) -> httpx.Request:
                request.headers["Authorization"] = f"Bearer {token}"
                return request

            return bear
        if settings.username:
            password = _secret(settings.password_file) if settings.password_file else ""
            return httpx.BasicAuth(settings.username, password)
        return None

    def _unreachable(self, message: str) -> SourceUnreachable:
        return SourceUnreachable(
            _short(message), action=f"Check that {self._settings.url} can be reached from the operator's pod."
        )


class _Body:
    """A body as it arrives."""

    def __init__(self, most: int, *, packed: bool) -> None:
        self._most = most
        self._unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16) if packed else None
        self._bytes = bytearray()

    def add(self, piece: bytes) -> None:
        """One more piece, as on the wire."""
        if self._unpacker is None:
            self._take(piece)
            return
        while piece and not self._unpacker.eof:
            try:
                self._take(self._unpacker.decompress(piece, _PIECE_BYTES))
            except zlib.error as error:
                raise _not_an_answer(error) from error
            piece = self._unpacker.unconsumed_tail

    @property
    def whole(self) -> bytes:
        """All of it."""
        return bytes(self._bytes)

    def _take(self, piece: bytes) -> None:
        self._bytes += piece
        if len(self._bytes) > self._most:
            raise AnswerTooLarge(
                f"the answer is larger than {self._most} bytes",
                action="Check that the scrape interval is not far below a second, or raise the limit.",
            )


def _result(status: int, body: bytes) -> object:
    if status != httpx.codes.OK:
        text = body[: 4 * _LONGEST_MESSAGE].decode(errors="replace")
        login = status in _LOGIN
        action = "Check Prometheus' credentials." if login else "Look at Prometheus' log."
        raise SourceRefused(_short(f"HTTP {status}: {text}"), action=action)
    try:
        # A number of 5,000 digits is one that is not finite, and not an error of the whole answer.
        answer = json.loads(body, parse_int=float)
        if answer["status"] == "error":
            raise SourceRefused(_short(body[:1200].decode()), action="Look at Prometheus' log.")
        result: object = answer["data"]["result"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _not_an_answer(error) from error
    return result


def _not_an_answer(error: Exception) -> AnswerMalformed:
    return AnswerMalformed(
        f"not an answer of Prometheus: {_short(f'{type(error).__name__}: {error}')}",
        action="Check that the URL is the one of Prometheus' HTTP API, without /api/v1.",
    )


def _authorities(path: Path | None) -> ssl.SSLContext | bool:
    if path is None:
        return True
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:
        raise SourceRefused(
            f"cannot read {path}", action="Check the certificate of the authority."
        ) from error


def _secret(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceRefused(
            f"cannot read {path}", action="Check the Secret with Prometheus' credentials."
        ) from error


def _cause(error: BaseException) -> str:
    """The system's own words at the bottom of a chain of errors, where there are any."""
    text = str(error) or type(error).__name__
    inner = error.__cause__ or error.__context__
    while inner is not None:
        if isinstance(inner, BaseExceptionGroup):  # one error for each address of the host
            inner = inner.exceptions[0]
        if isinstance(inner, ConnectionError) and inner.errno:
            text = os.strerror(inner.errno)
        elif isinstance(inner, OSError) and str(inner):
            text = str(inner)
        inner = inner.__cause__ or inner.__context__
    return text


def _short(message: str) -> str:
    return shortened(message, _LONGEST_MESSAGE)
