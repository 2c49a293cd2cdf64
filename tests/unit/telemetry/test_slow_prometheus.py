"""A Prometheus that takes its time at any step: the fetch ends, no thread stays, and the next one works."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from outrider.telemetry.prometheus import PrometheusSettings, PrometheusSource
from outrider.telemetry.series import PodKey, PodMetrics
from outrider.telemetry.source import SourceRefused, SourceUnreachable
from tests.unit.telemetry.factories import a_row, an_answer

POD = PodKey("default", "a")
ANSWER = an_answer(a_row())
HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n"
WHOLE = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)
TICKS = 4


class Server:
    """Speaks TCP: sends `whole` at once, then `drip` again and again."""

    def __init__(self) -> None:
        self.whole, self.drip = WHOLE, b""
        self._closing = threading.Event()

    @contextmanager
    def listening(self) -> Iterator[str]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=self._serve, args=(listener,), daemon=True).start()
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                self._closing.set()
                listener.shutdown(socket.SHUT_RDWR)

    def _serve(self, listener: socket.socket) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(65536)
                connection.sendall(self.whole)
                while self.drip and not self._closing.wait(0.02):
                    connection.sendall(self.drip)
            except OSError:
                return


def threads_of_fetches() -> int:
    """Of event loops and of their executors."""
    return sum(thread.name.startswith(("asyncio_", "prometheus")) for thread in threading.enumerate())


async def at_most_threads(most: int) -> None:
    """The thread of the library ends a moment after the answer that it waited for."""
    async with asyncio.timeout(30):
        while threads_of_fetches() > most:
            await asyncio.sleep(0.01)


async def no_answer(source: PrometheusSource) -> str:
    with pytest.raises(SourceUnreachable, match=r"^no complete answer within 0\.2 s: ") as caught:
        await source.fetch(60)
    return str(caught.value)


async def answered(source: PrometheusSource) -> Mapping[PodKey, PodMetrics]:
    """A fetch that ends in time, on a busy machine after some that do not."""
    while True:
        try:
            return await source.fetch(60)
        except SourceUnreachable:
            continue


@pytest.mark.parametrize(
    ("whole", "drip", "step"),
    [
        (b"", b"H", "waiting for the headers"),
        (HEAD + b"X-A: ", b"a", "waiting for the headers"),
        (HEAD, b"X-A: a\r\n", "waiting for the headers"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", "waiting for the headers"),
        (HEAD + b"Content-Length: 1000000\r\n\r\n", b" ", "reading the answer"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", "reading the answer"),
    ],
    ids=range(6),
)
async def test_an_answer_that_drips_ends_the_fetch_and_the_next_one_works(
    whole: bytes, drip: bytes, step: str
) -> None:
    server = Server()
    with server.listening() as url:
        source = PrometheusSource(PrometheusSettings(url, timeout_seconds=0.2))
        server.whole, server.drip = whole, drip
        known = threads_of_fetches()
        told = [await no_answer(source) for _ in range(TICKS)]
        while not any(step in message for message in told):
            told.append(await no_answer(source))
        await at_most_threads(known + 1)
        server.whole, server.drip = WHOLE, b""
        assert POD in await answered(source)
        source.close()


async def test_a_fetch_that_is_given_up_leaves_nothing_behind() -> None:
    server = Server()
    server.whole, server.drip = HEAD, b"X-A: a\r\n"
    with server.listening() as url:
        source = PrometheusSource(PrometheusSettings(url, timeout_seconds=300))
        known = threads_of_fetches()
        for _ in range(TICKS):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await source.fetch(60)
        await at_most_threads(known + 1)
        server.whole, server.drip = WHOLE, b""
        assert POD in await source.fetch(60)
        source.close()


async def test_a_name_that_is_looked_up_without_end_takes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    released, look_up = threading.Event(), socket.getaddrinfo

    def hang(*arguments: object, **named: object) -> object:
        released.wait(300)
        return look_up(*arguments, **named)  # type: ignore[arg-type]

    server = Server()
    with server.listening() as url:
        source = PrometheusSource(
            PrometheusSettings(url.replace("127.0.0.1", "localhost"), timeout_seconds=0.2)
        )
        known = threads_of_fetches()
        with monkeypatch.context() as patched:
            patched.setattr(socket, "getaddrinfo", hang)
            for _ in range(TICKS):
                assert "looking up the name" in await no_answer(source)
        await at_most_threads(known + 1)
        released.set()
        assert POD in await answered(source)
        source.close()


async def test_a_chain_of_redirects_ends() -> None:
    server = Server()
    server.whole = b"HTTP/1.1 302 Found\r\nLocation: /again\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    with server.listening() as url:
        source = PrometheusSource(PrometheusSettings(url, timeout_seconds=60))
        with pytest.raises((SourceUnreachable, SourceRefused), match="redirects"):
            await source.fetch(60)
        source.close()


async def test_a_source_that_is_closed_has_no_threads() -> None:
    known = threads_of_fetches()
    server = Server()
    with server.listening() as url:
        source = PrometheusSource(PrometheusSettings(url.replace("127.0.0.1", "localhost")))
        await source.fetch(60)
        source.close()
    await at_most_threads(known)


async def test_the_callers_loop_turns_while_an_answer_is_taken_apart() -> None:
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    server = Server()
    rows = an_answer(*(a_row(pod=f"p{index}") for index in range(5000)))
    server.whole = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(rows), rows)
    with server.listening() as url:
        source = PrometheusSource(PrometheusSettings(url, timeout_seconds=60))
        turning = asyncio.create_task(turn())
        assert len(await source.fetch(60)) == 5000
        turning.cancel()
        source.close()
    assert turns > 5
