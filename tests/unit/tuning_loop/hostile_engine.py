"""A server on loopback that answers with any bytes, and the bytes that it may answer with."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.unit.engine.fake_engine import FakeEngine


@dataclass(frozen=True)
class Answer:
    """Everything that goes over the wire, head and body. ``stalls``: then neither continues nor closes."""

    raw: bytes
    stalls: bool = False


@dataclass
class HostileEngine:
    """The same answer to whatever is asked, a push, a probe or the state."""

    answer: Answer = Answer(b"")
    asked: int = 0
    url: str = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await reader.readuntil(b"\r\n\r\n")
                self.asked += 1
                writer.write(self.answer.raw)
                await writer.drain()
                if self.answer.stalls:
                    await reader.read()  # until the client gives up
        finally:
            writer.close()


@asynccontextmanager
async def hostile() -> AsyncIterator[HostileEngine]:
    engine = HostileEngine()
    server = await asyncio.start_server(engine.handle, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    engine.url = f"http://{host}:{port}"
    async with server:
        yield engine


NUMBERS = st.integers() | st.floats() | st.sampled_from([10**30, 10**400, 2**53, -1, 5, 1, 0, True])
TEXTS = st.text(max_size=8) | st.sampled_from(["x" * 5_000, "\x1b[2J", "²", "\x00", "Pushed", "StaleEpoch"])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
ROWS = st.lists(
    st.fixed_dictionaries({"numSpeculativeTokens": NUMBERS}, optional={"maxBatchSize": NUMBERS}), max_size=3
)
FIELDS = sorted(FakeEngine().state())
STATES = st.dictionaries(st.sampled_from(FIELDS), JSON | ROWS, max_size=3).map(
    lambda odd: {**FakeEngine().state(), **odd}
)
ERRORS = st.fixed_dictionaries({"error": JSON | st.fixed_dictionaries({"reason": TEXTS, "message": JSON})})
DEEP = st.sampled_from([b"[" * 50_000, b'{"a":' * 50_000, b"9" * 5_000, b'{"term":' + b"9" * 5_000 + b"}"])
BODIES = (
    (STATES | ERRORS | JSON).map(lambda value: json.dumps(value).encode())
    | (STATES | ERRORS).map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-16", "replace"))
    | DEEP
    | st.binary(max_size=64)
)
ENCODINGS = st.sampled_from(
    [
        (b"Content-Encoding: gzip\r\n", gzip.compress),
        (b"Content-Encoding: deflate\r\n", zlib.compress),
        (b"Content-Encoding: gzip, gzip\r\n", lambda body: gzip.compress(gzip.compress(body))),
        (b"Content-Encoding: gzip\r\n", bytes),
        (b"Content-Encoding: br\r\n", bytes),
        (b"Content-Type: application/json; charset=\xff\r\n", bytes),
        (b"Set-Cookie: a=b; Max-Age=x; Expires=never\r\n", bytes),
        (b"Location: http://[::1\r\n", bytes),
        (b"Content-Length: -5\r\n", bytes),
        (b"Content-Length: 9\r\nContent-Length: 7\r\n", bytes),
        (b"Content-Length: 999999\r\n", bytes),
        (b"Transfer-Encoding: chunked\r\n", bytes),
        (b"Transfer-Encoding: chunked\r\n", lambda body: b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)),
        (b"X: " + b"y" * 200_000 + b"\r\n", bytes),
        (b": no name\r\nnor colon\r\n\x00\r\n", bytes),
    ]
)
STATUSES = st.sampled_from([200, 200, 200, 201, 204, 304, 302, 100, 101, 401, 404, 409, 422, 500, 503, 999])
STALLS = st.sampled_from([False] * 20 + [True])


def _http(status: int, body: bytes, encoding: tuple[bytes, Callable[[bytes], bytes]]) -> bytes:
    header, encode = encoding
    return b"HTTP/1.1 %d Odd\r\n%s\r\n%s" % (status, header, encode(body))


PLAIN = st.builds(_http, STATUSES, BODIES, st.just((b"", bytes)))
ENCODED = st.builds(_http, STATUSES, BODIES, ENCODINGS)
ANSWERS = st.builds(Answer, PLAIN | ENCODED | st.binary(max_size=64), STALLS)
