"""A download's report on itself, and its cost for the reader."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from outrider_weights import progress
from outrider_weights.progress import MAX_CONNECTIONS, Looks, Progress, served


class Walk:
    """A look at the volume that counts itself."""

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self) -> Progress:
        self.taken += 1
        return Progress(self.taken, 10)


@pytest.fixture
def port() -> Iterator[int]:
    with served(lambda: Progress(1, 2), 0) as port:
        yield port


def connection(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port))
    made.settimeout(30)
    return made


def test_the_answer_has_both_numbers_and_no_other_page_is_there(port: int) -> None:
    assert httpx.get(f"http://127.0.0.1:{port}/progress").json() == {"done": 1, "total": 2}
    assert httpx.get(f"http://127.0.0.1:{port}/").status_code == 404


def test_the_volume_is_walked_once_a_second_for_all_who_ask() -> None:
    now, walk = 100.0, Walk()
    looks = Looks(walk, clock=lambda: now)

    assert [looks().done for _ in range(5)] == [1] * 5
    now += 0.99
    assert looks().done == 1
    now += 0.01
    assert [looks().done for _ in range(5)] == [2] * 5


def test_two_who_ask_at_the_same_time_share_one_walk() -> None:
    walking, finished = threading.Event(), threading.Event()
    walks = []

    def walk() -> Progress:
        walks.append(1)
        walking.set()
        finished.wait(30)
        return Progress(1, 2)

    looks = Looks(walk, clock=lambda: 0.0)
    asking = [threading.Thread(target=looks) for _ in range(4)]
    for each in asking:
        each.start()
    assert walking.wait(30)
    finished.set()
    for each in asking:
        each.join(30)
    assert walks == [1]


def test_connections_beyond_the_bound_are_closed_at_once(port: int) -> None:
    with ExitStack() as held:
        for _ in range(MAX_CONNECTIONS):
            open_one = held.enter_context(connection(port))
            # So that the server has taken it before the next one comes.
            open_one.sendall(b"GET /progress HTTP/1.0\r\n")
        refused = held.enter_context(connection(port))
        assert refused.recv(1) == b""


def test_a_connection_that_says_nothing_is_ended_and_makes_room(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "CONNECTION_SECONDS", 0.01)
    with ExitStack() as held:
        silent = [held.enter_context(connection(port)) for _ in range(MAX_CONNECTIONS)]
        assert [each.recv(1) for each in silent] == [b""] * MAX_CONNECTIONS
    monkeypatch.undo()
    for _ in range(100):
        # A slot is free as soon as the server's thread has seen the end.
        try:
            answer = httpx.get(f"http://127.0.0.1:{port}/progress")
        except httpx.TransportError:
            continue
        assert json.loads(answer.content) == {"done": 1, "total": 2}
        return
    raise AssertionError("no connection was taken again")
