"""How an API server takes leave of its clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from outrider_engine.http.graceful_shutdown import SETTLE_SECONDS, GracefulShutdown, ShutdownMiddleware
from outrider_engine.http.server import Message, Receive, Scope, Send, close_connections


@dataclass
class FakeApp:
    """Answers with a status and two chunks, or fails before its answer or within it."""

    status: int = 200
    fails_before: bool = False
    fails_within: bool = False
    when_asked: Callable[[], None] = lambda: None
    asked: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        self.asked.append(scope.get("path", ""))
        self.when_asked()
        if self.fails_before:
            raise RuntimeError("cannot schedule new futures after shutdown")
        await send({"type": "http.response.start", "status": self.status, "headers": [(b"server", b"x")]})
        await send({"type": "http.response.body", "body": b"one ", "more_body": True})
        if self.fails_within:
            raise RuntimeError("the engine died")
        await send({"type": "http.response.body", "body": b"two"})


@dataclass(frozen=True)
class Answer:
    """What a client got."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def closes(self) -> bool:
        """Whether the connection ends with it."""
        return self.headers.get(b"connection") == b"close"


@pytest.fixture
def drain_file(tmp_path: Path) -> Path:
    return tmp_path / "drain"


@pytest.fixture
def shutdown(drain_file: Path) -> GracefulShutdown:
    return GracefulShutdown(drain_file)


def stop(shutdown: GracefulShutdown) -> None:
    """As vLLM's end does, without the wait."""
    seconds_to_stop(shutdown)


async def nothing() -> Message:
    return {"type": "http.request", "body": b""}


async def ask(
    app: FakeApp, shutdown: GracefulShutdown, path: str = "/v1/completions", method: str = "POST"
) -> Answer:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    path, _, query = path.partition("?")
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": []}
    try:
        await ShutdownMiddleware(app, shutdown=shutdown)(scope, nothing, send)
    finally:
        start, *chunks = sent or [{}]
    assert [message["type"] for message in chunks] == ["http.response.body"] * len(chunks)
    body = b"".join(chunk["body"] for chunk in chunks)
    return Answer(start["status"], dict(start["headers"]), body)


async def test_an_engine_that_neither_drains_nor_ends_answers_as_ever(shutdown: GracefulShutdown) -> None:
    assert await ask(FakeApp(), shutdown) == Answer(200, {b"server": b"x"}, b"one two")
    assert await ask(FakeApp(), GracefulShutdown(None)) == Answer(200, {b"server": b"x"}, b"one two")


async def test_a_draining_engine_serves_every_request_and_closes_its_connection(
    shutdown: GracefulShutdown, drain_file: Path
) -> None:
    drain_file.touch()
    answer = await ask(FakeApp(), shutdown)
    assert (answer.status, answer.body, answer.closes) == (200, b"one two", True)
    assert answer.headers[b"server"] == b"x"


async def test_a_request_from_before_the_drain_whose_answer_begins_in_it_closes_its_connection(
    shutdown: GracefulShutdown, drain_file: Path
) -> None:
    assert (await ask(FakeApp(when_asked=drain_file.touch), shutdown)).closes


async def test_a_draining_engine_is_not_ready_but_alive(shutdown: GracefulShutdown, drain_file: Path) -> None:
    readiness, liveness = "/health?readiness", "/health"
    assert [(await ask(FakeApp(), shutdown, path, "GET")).status for path in (readiness, liveness)] == [
        200
    ] * 2
    drain_file.touch()
    assert (await ask(FakeApp(), shutdown, readiness, "GET")).status == 503
    assert (await ask(FakeApp(), shutdown, liveness, "GET")).status == 200


async def test_a_container_that_starts_anew_does_not_drain(
    shutdown: GracefulShutdown, drain_file: Path
) -> None:
    drain_file.touch()
    shutdown.forget_drain()
    assert not shutdown.draining
    shutdown.forget_drain()


async def test_a_request_to_an_ending_engine_is_to_be_sent_again(shutdown: GracefulShutdown) -> None:
    app = FakeApp()
    stop(shutdown)
    answer = await ask(app, shutdown)
    assert (answer.status, answer.headers[b"retry-after"], answer.closes) == (503, b"1", True)
    assert int(answer.headers[b"content-length"]) == len(answer.body)
    assert app.asked == []


@pytest.mark.parametrize("path", ["/health", "/metrics"])
async def test_an_ending_engine_still_tells_of_itself(shutdown: GracefulShutdown, path: str) -> None:
    stop(shutdown)
    answer = await ask(FakeApp(), shutdown, path, "GET")
    assert (answer.status, answer.closes) == (200, True)


@pytest.mark.parametrize("app", [FakeApp(fails_before=True), FakeApp(status=500)], ids=["raises", "answers"])
async def test_a_request_that_meets_the_end_before_its_answer_is_to_be_sent_again(
    shutdown: GracefulShutdown, app: FakeApp
) -> None:
    app.when_asked = lambda: stop(shutdown)
    answer = await ask(app, shutdown)
    assert (answer.status, answer.headers[b"retry-after"], answer.closes) == (503, b"1", True)
    assert b"one" not in answer.body


def seconds_to_stop(shutdown: GracefulShutdown, when: Callable[[float], None] = lambda _: None) -> float:
    """What the engine's end waits, on a clock that only a sleep moves. when: called with each time."""
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        when(now[0] - 100.0)

    shutdown.stop(clock=lambda: now[0], sleep=sleep)
    return now[0] - 100.0


def test_an_idle_engine_ends_at_once(shutdown: GracefulShutdown) -> None:
    assert seconds_to_stop(shutdown) == 0


def test_the_end_waits_until_requests_that_were_taken_have_reached_the_engine(
    shutdown: GracefulShutdown,
) -> None:
    with shutdown.request():
        assert seconds_to_stop(shutdown) == pytest.approx(SETTLE_SECONDS, abs=0.1)
        assert seconds_to_stop(shutdown) == 0


def test_the_end_waits_no_longer_than_requests_are_under_way(shutdown: GracefulShutdown) -> None:
    request = shutdown.request()
    request.__enter__()
    left: list[float] = []

    def leave(passed: float) -> None:
        if passed > 0.5 and not left:
            left.append(passed)
            request.__exit__(None, None, None)

    assert seconds_to_stop(shutdown, leave) == pytest.approx(0.5, abs=0.1)


async def test_no_new_request_is_taken_while_the_end_waits(shutdown: GracefulShutdown) -> None:
    seen: list[bool] = []
    with shutdown.request():
        seconds_to_stop(shutdown, lambda _: seen.append(shutdown.stopped))
    assert seen
    assert all(seen)


async def test_a_request_is_under_way_until_its_answer_is_sent_or_failed(shutdown: GracefulShutdown) -> None:
    with pytest.raises(RuntimeError):
        await ask(FakeApp(fails_within=True), shutdown)
    waited: list[float] = []
    await ask(FakeApp(when_asked=lambda: waited.append(seconds_to_stop(shutdown))), shutdown)
    assert waited == [pytest.approx(SETTLE_SECONDS, abs=0.1)]


async def test_an_answer_that_began_before_the_end_arrives_whole(shutdown: GracefulShutdown) -> None:
    chunks: list[Message] = []

    async def send(message: Message) -> None:
        chunks.append(message)
        stop(shutdown)

    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "query_string": b"", "headers": []}
    await ShutdownMiddleware(FakeApp(), shutdown=shutdown)(scope, nothing, send)
    assert [chunk.get("body") for chunk in chunks] == [None, b"one ", b"two"]


async def test_a_fault_of_an_engine_that_does_not_end_stays_a_fault(
    shutdown: GracefulShutdown, drain_file: Path
) -> None:
    drain_file.touch()
    assert (await ask(FakeApp(status=500), shutdown)).status == 500
    with pytest.raises(RuntimeError, match="cannot schedule"):
        await ask(FakeApp(fails_before=True), shutdown)


async def test_a_fault_within_an_answer_stays_a_fault_when_the_engine_ends(
    shutdown: GracefulShutdown,
) -> None:
    with pytest.raises(RuntimeError, match="the engine died"):
        await ask(FakeApp(fails_within=True, when_asked=lambda: stop(shutdown)), shutdown)


async def test_a_websocket_is_left_alone(shutdown: GracefulShutdown) -> None:
    app, ended = FakeApp(), []
    stop(shutdown)

    async def send(message: Message) -> None:
        ended.append(message)

    await ShutdownMiddleware(app, shutdown=shutdown)(
        {"type": "websocket", "path": "/v1/realtime"}, nothing, send
    )
    assert app.asked == ["/v1/realtime"]
    assert ended[0]["status"] == 200


class FakeConnection:
    """As uvicorn has them: HTTP goes from one cycle of request and answer to the next."""

    def __init__(self, **cycle: object) -> None:
        self.closed = False
        vars(self).update(cycle)

    def shutdown(self) -> None:
        self.closed = True


def test_the_end_closes_connections_but_no_websocket() -> None:
    http, websocket = FakeConnection(cycle=None), FakeConnection()
    server = SimpleNamespace(server_state=SimpleNamespace(connections={http, websocket}))
    close_connections(SimpleNamespace(server=server))
    assert (http.closed, websocket.closed) == (True, False)
