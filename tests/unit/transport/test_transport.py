"""A pod may answer anything; asking it costs no more than was allowed."""

from __future__ import annotations

import asyncio
import gc
import gzip
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress

import pytest

from outrider.engine.client import EngineClient
from outrider.engine.errors import EngineProtocolError
from outrider.telemetry.pod_scrape import PodScrapeSource, Target
from outrider.telemetry.series import PodKey
from outrider.telemetry.source import EnginesUnreachable
from outrider.transport import AnswerRefused, NoAnswer, PodAnswer, PodHttp
from tests.unit.engine.fake_engine import an_address

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
Pod = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(pod: Pod, heard: bytearray | None = None) -> AsyncIterator[str]:
    """A pod that writes what it likes after each request; the URL."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                if heard is not None:
                    heard.extend(request)
                await pod(writer)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def saying(*headers: bytes, body: bytes = b"") -> Pod:
    async def pod(writer: asyncio.StreamWriter) -> None:
        lines = [*headers, b"Content-Length: %d" % len(body)]
        writer.write(HEAD + b"\r\n".join(lines) + b"\r\n\r\n" + body)

    return pod


def without_end(start: bytes, again: bytes) -> Pod:
    async def pod(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(again * 1000)
            await writer.drain()

    return pod


async def asked(url: str, *, most_bytes: int = 1000, seconds: float = 60) -> PodAnswer:
    async with PodHttp() as http, asyncio.timeout(seconds):
        return await http.ask("GET", url, most_bytes=most_bytes)


async def test_any_status_is_an_answer() -> None:
    async def pod(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy")

    async with serving(pod) as url:
        assert await asked(url) == PodAnswer(503, b"busy")


async def test_a_pod_is_asked_not_to_compress() -> None:
    heard = bytearray()
    async with serving(saying(), heard) as url:
        await asked(url)
    assert b"Accept-Encoding: identity" in heard


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"gzip, gzip", b"x-unheard-of"])
async def test_an_answer_that_is_compressed_all_the_same_is_refused(encoding: bytes) -> None:
    async with serving(saying(b"Content-Encoding: " + encoding, body=b"x")) as url:
        with pytest.raises(AnswerRefused, match="compressed"):
            await asked(url)


async def test_identity_is_no_compression() -> None:
    async with serving(saying(b"Content-Encoding: identity", body=b"x")) as url:
        assert (await asked(url)).content == b"x"


@pytest.mark.parametrize("size", [1000, 1001])
async def test_an_answer_is_read_up_to_the_limit(size: int) -> None:
    async with serving(saying(body=b"x" * size)) as url:
        if size <= 1000:
            assert len((await asked(url)).content) == size
        else:
            with pytest.raises(AnswerRefused, match="larger than 1000 bytes"):
                await asked(url)


async def test_an_answer_without_end_is_left_at_the_limit() -> None:
    endless = without_end(CHUNKED, b"c8\r\n" + b"x" * 200 + b"\r\n")
    async with serving(endless) as url:
        with pytest.raises(AnswerRefused, match="larger than 1000 bytes"):
            await asked(url)


async def test_an_answer_in_pieces_of_one_byte_is_left_after_a_few() -> None:
    async with serving(without_end(CHUNKED, b"1\r\nx\r\n")) as url:
        with pytest.raises(AnswerRefused, match="in chunks of 1 bytes"):
            await asked(url, most_bytes=1_000_000)


@pytest.mark.parametrize("pieces", [64, 65])
async def test_small_pieces_are_taken_as_far_as_a_few_go(pieces: int) -> None:
    async def pod(writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + b"1\r\nx\r\n" * pieces + b"0\r\n\r\n")

    async with serving(pod) as url:
        if pieces == 64:
            assert (await asked(url)).content == b"x" * 64
        else:
            with pytest.raises(AnswerRefused, match="chunks"):
                await asked(url)


async def test_an_answer_in_packets_of_a_network_is_taken_whole() -> None:
    async def pod(writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + (b"200\r\n" + b"x" * 512 + b"\r\n") * 1_000 + b"0\r\n\r\n")

    async with serving(pod) as url:
        assert len((await asked(url, most_bytes=512_000)).content) == 512_000


async def test_headers_without_end_are_no_answer() -> None:
    async with serving(without_end(HEAD, b"X-More: and more\r\n")) as url:
        with pytest.raises(NoAnswer):
            await asked(url)


async def test_interim_answers_without_end_are_left_when_the_time_is_up() -> None:
    async with serving(without_end(b"", b"HTTP/1.1 100 Continue\r\n\r\n")) as url:
        with pytest.raises(TimeoutError):
            await asked(url, seconds=0.5)


async def test_a_redirect_is_an_answer_and_not_followed() -> None:
    heard = bytearray()
    async with serving(saying(), heard) as elsewhere:

        async def pod(writer: asyncio.StreamWriter) -> None:
            writer.write(
                b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %s\r\n\r\n" % elsewhere.encode()
            )

        async with serving(pod) as url:
            assert (await asked(url)).status == 302
    assert not heard


async def test_cookies_of_a_pod_are_not_kept() -> None:
    heard = bytearray()
    async with serving(saying(b"Set-Cookie: spam=" + b"x" * 4000), heard) as url, PodHttp() as http:
        for _ in range(2):
            await http.ask("GET", url, most_bytes=1000)
    assert b"spam" not in heard


BOMB = gzip.compress(gzip.compress(bytes(50_000_000)))
"""A hundred and some bytes that unpack to 50 MB."""


@pytest.fixture
def peak_bytes() -> Iterator[Callable[[], int]]:
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()


async def test_a_bomb_costs_the_client_of_the_control_api_nothing(peak_bytes: Callable[[], int]) -> None:
    client = EngineClient(timeout_seconds=60)
    async with serving(saying(b"Content-Encoding: gzip, gzip", body=BOMB)) as url:
        with pytest.raises(EngineProtocolError, match="compressed"):
            await client.state(an_address(url))
    await client.aclose()
    assert peak_bytes() < 5_000_000


async def test_a_bomb_costs_a_scrape_nothing(peak_bytes: Callable[[], int]) -> None:
    async with (
        serving(saying(b"Content-Encoding: gzip, gzip", body=BOMB)) as url,
        PodScrapeSource(lambda: [Target(PodKey("default", "a"), url)]) as source,
    ):
        with pytest.raises(EnginesUnreachable, match="compressed"):
            await source.fetch(60)
    assert peak_bytes() < 5_000_000


async def test_a_closed_connection_leaves_nothing_for_the_garbage_collector() -> None:
    def connections(port: int) -> int:
        """Of the client, that are still in memory."""
        found = (each for each in gc.get_objects() if isinstance(each, asyncio.Transport))
        return sum((each.get_extra_info("peername") or (None, None))[1] == port for each in found)

    page = saying(b"Connection: close", body=b"x" * 100_000)
    async with serving(page) as url, PodHttp() as http, asyncio.timeout(30):
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                await http.ask("GET", url, most_bytes=1_000_000)
            while connections(int(url.rpartition(":")[2])):
                await asyncio.sleep(0.01)
        finally:
            gc.enable()


async def test_a_pod_is_never_reached_through_a_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with serving(saying(body=b"{}")) as url, PodHttp() as http:
        assert await http.ask("GET", url, most_bytes=100) == PodAnswer(200, b"{}")
