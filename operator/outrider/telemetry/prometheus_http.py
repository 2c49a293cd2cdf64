"""One answer of Prometheus' HTTP API, with limits of time and size that include the name lookup.

prometheus-api-client sends queries and parses answers. Its HTTP uses an adapter of `requests` in this module,
because `requests` itself limits neither lookups nor headers nor bodies.
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
"""Bytes decompressed at a time."""
_MAX_MESSAGE = 300
_ENCODINGS = ("", "identity", "gzip")
"""Accepted content encodings. One layer is decompressed in chunks; several layers are refused."""
_LOGIN = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
_STEPS = {
    "connection.connect_tcp": "looking up the name and connecting",
    "connection.start_tls": "TLS",
    "http11.send_request_headers": "sending the query",
    "http11.receive_response_headers": "waiting for the headers of the answer",
    "http11.receive_response_body": "reading the answer",
}
"""httpx's name of a step -> description for messages."""


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """Address of Prometheus and access to it. A token takes precedence over a user name.

    Raises:
        ValueError: not an HTTP URL, or one with credentials, which would appear in logs.
    """

    url: str
    timeout_seconds: float = 5.0  # for the whole answer
    max_response_bytes: int = 8 * 1024 * 1024  # after decompression; parsing takes ten times as much memory
    bearer_token_file: Path | None = None  # read at every call, so token rotation works
    username: str | None = None
    password_file: Path | None = None
    ca_file: Path | None = None  # None: the system's

    def __post_init__(self) -> None:
        url = urlsplit(self.url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError("the Prometheus URL must start with http:// or https:// and name a host")
        if "@" in url.netloc:
            raise ValueError(
                "the Prometheus URL must not contain credentials; set a user name and a password file"
            )


class Result(NamedTuple):
    """`data.result` of an answer, unchecked, and the size of the whole answer in bytes."""

    rows: object
    size: int


class PrometheusHttp:
    """Client of instant queries for one fetch, one query at a time. It reads the CA file at its start.

    Raises:
        SourceRefused: the CA file cannot be read.
    """

    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings
        self._step = ""
        self._latest = _Answer(0, b"")
        self._reading: Future[_Answer] | None = None
        self._given_up = False
        self._loop = asyncio.get_running_loop()
        # The library blocks this thread, but never longer than the limited time of an answer.
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
        """Limit of one answer in bytes."""
        return self._settings.max_response_bytes

    async def ask(self, promql: str) -> Result:
        """Return `data.result` of the answer.

        Raises:
            MetricsError: there is none; the error gives the reason.
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
            raise self._unreachable(f"no complete answer within {seconds:g} s: {self._step}") from error
        except (requests.RequestException, httpx.HTTPError, httpx.StreamError, OSError) as error:
            raise self._unreachable(_cause(error)) from error
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise _not_an_answer(error) from error
        return Result(rows, len(self._latest.content))

    def _send(self, request: requests.PreparedRequest) -> requests.Response:
        """Fetch for the library, on its thread; the loop reads, within the time of one answer."""
        self._reading = asyncio.run_coroutine_threadsafe(self._read(request), self._loop)
        if self._given_up:
            self._reading.cancel()
        self._latest = self._reading.result()
        return self._latest

    def _give_up(self) -> None:
        """End the wait of the library's thread now, instead of at the timeout of an answer."""
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
                    f"the answer has a compression that the request did not offer: {_short(encoding)}",
                    action="Check the proxies between the operator and Prometheus.",
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
    """A body that arrives in chunks."""

    def __init__(self, most: int, *, packed: bool) -> None:
        self._most = most
        self._unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16) if packed else None
        self._bytes = bytearray()

    def add(self, piece: bytes) -> None:
        """Add one chunk, as received."""
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
        """Return the whole body."""
        return bytes(self._bytes)

    def _take(self, piece: bytes) -> None:
        self._bytes += piece
        if len(self._bytes) > self._most:
            raise AnswerTooLarge(
                f"the answer is larger than {self._most} bytes",
                action="Check that the scrape interval is not far below a second, or raise the limit.",
            )


class _Answer(requests.Response):
    """A complete answer in the form that the library reads."""

    def __init__(self, status: int, content: bytes) -> None:
        super().__init__()
        self.status_code = status
        self._content = content
        self._content_consumed = True

    def json(self, **_: Any) -> Any:
        """Return the parsed document.

        Raises:
            SourceRefused: Prometheus reports that the query failed.
        """
        # An integer of 5,000 digits becomes infinite; it must not make the whole answer fail.
        answer = json.loads(self.content, parse_int=float)
        if answer["status"] == "error":
            raise SourceRefused(_short(self.content[:1200].decode()), action="Look at Prometheus' log.")
        return answer

    def refusal(self) -> SourceRefused:
        """Raise the error of an answer whose status is not 200."""
        text = self.content[: 4 * _MAX_MESSAGE].decode(errors="replace")
        login = self.status_code in _LOGIN
        action = "Check Prometheus' credentials." if login else "Look at Prometheus' log."
        return SourceRefused(_short(f"HTTP {self.status_code}: {text}"), action=action)


class _Adapter(requests.adapters.BaseAdapter):
    """Transport adapter of `requests`."""

    def __init__(self, send: Callable[[requests.PreparedRequest], requests.Response]) -> None:
        super().__init__()
        self._send = send

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        return self._send(request)

    def close(self) -> None:
        """Do nothing: the connections belong to the client."""


class _Login(requests.auth.AuthBase):
    def __init__(self, settings: PrometheusSettings) -> None:
        self._settings = settings

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add credentials, freshly read from their files."""
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
        action="Check that the URL is that of Prometheus' HTTP API, without /api/v1.",
    )


def _authorities(path: Path | None) -> ssl.SSLContext | bool:
    if path is None:
        return True
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:
        raise SourceRefused(f"cannot read {path}", action="Check the CA certificate.") from error


def _secret(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceRefused(
            f"cannot read {path}", action="Check the Secret with Prometheus' credentials."
        ) from error


def _cause(error: BaseException) -> str:
    """Return the operating system's text of the innermost error, if there is one."""
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
    return shortened(message, _MAX_MESSAGE)
