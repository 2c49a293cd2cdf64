"""One answer of Prometheus' HTTP API, within a time and a size that are bounded from the lookup on.

prometheus-api-client asks and reads. Its HTTP goes through an adapter of `requests` that is ours, since
`requests` itself bounds neither lookups nor headers nor bodies.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import httpx
import requests
import requests.adapters
import requests.auth
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException

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
        self._latest = _Answer(0, b"")
        self._reading: Future[_Answer] | None = None
        self._given_up = False
        self._loop = asyncio.get_running_loop()
        # The library blocks. It never outlives the answer that it waits for, which is bounded.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prometheus-api-client")
        self._client = PrometheusConnect(
            url=settings.url.rstrip("/"), session=(session := requests.Session())
        )
        session.auth = _Login(settings)
        session.trust_env = False  # a .netrc or proxy variable must not change who is asked, or as whom
        session.headers["Accept-Encoding"] = "gzip"
        session.max_redirects = 3
        for url in (settings.url.rstrip("/"), "http://", "https://"):
            session.mount(url, _Adapter(self._send))
        self._http = httpx.AsyncClient(
            timeout=None,  # the whole answer has one
            trust_env=False,  # a .netrc or proxy variable must not change who is asked, or as whom
            verify=_authorities(settings.ca_file),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=False)
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
        try:
            rows = await self._loop.run_in_executor(self._thread, self._client.custom_query, promql)
        except asyncio.CancelledError:
            self._give_up()
            raise
        except PrometheusApiClientException as error:
            raise self._latest.refusal() from error
        except TimeoutError as error:
            seconds = self._settings.timeout_seconds
            raise self._unreachable(f"no whole answer within {seconds:g} s: {self._step}") from error
        except (requests.RequestException, httpx.HTTPError, httpx.StreamError, OSError) as error:
            raise self._unreachable(_cause(error)) from error
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise _not_an_answer(error) from error
        return Result(rows, len(self._latest.content))

    def _send(self, request: requests.PreparedRequest) -> requests.Response:
        """Called by the library on its thread; read on the loop, within the time of one answer."""
        self._reading = asyncio.run_coroutine_threadsafe(self._read(request), self._loop)
        if self._given_up:
            self._reading.cancel()
        self._latest = self._reading.result()
        return self._latest

    def _give_up(self) -> None:
        """The thread of the library ends with what it waits for, and not only at the time of an answer."""
        self._given_up = True
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self, request: requests.PreparedRequest) -> _Answer:
        self._step = "connecting"
        async with (
            asyncio.timeout(self._settings.timeout_seconds),
            self._http.stream(
                str(request.method),
                str(request.url),
                headers=[(name, str(value)) for name, value in request.headers.items()],
                extensions={"trace": self._note_step},
            ) as response,
        ):
            encoding = response.headers.get("Content-Encoding", "").strip().lower()
            if encoding not in _ENCODINGS:
                raise AnswerMalformed(
                    f"the answer is compressed in a way that was not asked for: {_short(encoding)}",
                    action="Check what answers between the operator and Prometheus.",
                )
            body = _Body(self._settings.max_response_bytes, packed=encoding == "gzip")
            async for piece in response.aiter_raw(_PIECE_BYTES):
                body.add(piece)
            answer = _Answer(response.status_code, body.whole)
            answer.request, answer.url = request, str(request.url)
            if "Location" in response.headers:
                answer.headers["Location"] = response.headers["Location"]
            return answer

    async def _note_step(self, event: str, _: object) -> None:
        step, _, what = event.rpartition(".")
        if what == "started":
            self._step = _STEPS.get(step, self._step)

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


class _Answer(requests.Response):
    """A whole answer, as the library reads it."""

    def __init__(self, status: int, content: bytes) -> None:
        super().__init__()
        self.status_code = status
        self._content = content
        self._content_consumed = True

    def json(self, **_: Any) -> Any:
        """The document.

        Raises:
            SourceRefused: Prometheus says that the query failed.
        """
        # A number of 5,000 digits is one that is not finite, and not an error of the whole answer.
        answer = json.loads(self.content, parse_int=float)
        if answer["status"] == "error":
            raise SourceRefused(_short(self.content[:1200].decode()), action="Look at Prometheus' log.")
        return answer

    def refusal(self) -> SourceRefused:
        """What another status than 200 means."""
        text = self.content[: 4 * _LONGEST_MESSAGE].decode(errors="replace")
        login = self.status_code in _LOGIN
        action = "Check Prometheus' credentials." if login else "Look at Prometheus' log."
        return SourceRefused(_short(f"HTTP {self.status_code}: {text}"), action=action)


class _Adapter(requests.adapters.BaseAdapter):
    """What `requests` sends by."""

    def __init__(self, send: Callable[[requests.PreparedRequest], requests.Response]) -> None:
        super().__init__()
        self._send = send

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        return self._send(request)

    def close(self) -> None:
        """Connections belong to the client that reads."""


class _Login(requests.auth.AuthBase):
    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add credentials, read anew."""
        settings = self._settings
        if settings.bearer_token_file:
            request.headers["Authorization"] = f"Bearer {_secret(settings.bearer_token_file)}"
        elif settings.username:
            password = _secret(settings.password_file) if settings.password_file else ""
            return requests.auth.HTTPBasicAuth(settings.username, password)(request)
        return request


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
