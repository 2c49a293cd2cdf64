"""How an engine under load ends: clients leave it while it drains, and none of them meets an error."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.contract.engine import Engine, completion_body, environment, running_engine
from tests.contract.engine_process import PYTHON
from tests.contract.load import TOKENS, WHOLE, finish
from tests.contract.twin import twin_launch

pytestmark = pytest.mark.contract

CLIENTS = 4
"""Of each kind: with streams, and without."""
LONG_TOKENS = 240
LONG_STREAMS = 4
"""Together they last some seconds, so that requests meet the end of the engine."""
TIME_FACTOR = 5
"""As slow as an engine that computes here."""
FORGET_SECONDS, DRAIN_SECONDS = 2.0, 90.0
END_SECONDS = 150.0
SHUTDOWN_TIMEOUT = 120


@dataclass(frozen=True)
class Drain:
    """What happened from the drain to the end.

    answers: how each request of the clients ended that asked until an answer closed their connection.
    seconds: what the drain took.
    probes: status of readiness and liveness, before the drain and within it.
    """

    answers: list[str]
    seconds: float
    probes: list[tuple[int, int]]


@dataclass(frozen=True)
class End:
    """What happened after SIGTERM.

    long: how the streams ended that were under way.
    late: what requests on new connections got, one after the other, until none was taken, and how the
        answers of those that got one ended.
    """

    long: list[str]
    late: list[tuple[httpx.Response, str]]


@pytest.fixture(scope="module")
def drain_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pod") / "drain"


@pytest.fixture(scope="module")
def ending(
    plugin: Path, twin: Path, drain_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """An engine in a pod where an earlier container drained. A stand-in, since no tensor matters."""
    drain_file.touch()
    launch = twin_launch(
        plugin,
        twin,
        settings={"engine": "h100_8b", "time_factor": TIME_FACTOR},
        flags=("--shutdown-timeout", str(SHUTDOWN_TIMEOUT)),
        OUTRIDER_DRAIN_FILE=str(drain_file),
    )
    with running_engine(plugin, tmp_path_factory.mktemp("ending"), launch) as engine:
        yield engine


@pytest.fixture(scope="module")
def drain(ending: Engine, plugin: Path, drain_file: Path) -> Drain:
    """The drain of the container's preStop, under load."""
    with ThreadPoolExecutor(2 * CLIENTS) as pool:
        clients = [pool.submit(ask_until_sent_away, ending, streams=n < CLIENTS) for n in range(2 * CLIENTS)]
        probes = [probe(ending)]
        began = time.monotonic()
        with subprocess.Popen(drain_command(ending), env=drain_environment(plugin, drain_file)) as command:
            until(drain_file.exists)
            probes.append(probe(ending))
            assert command.wait(DRAIN_SECONDS) == 0
        seconds = time.monotonic() - began
        return Drain([answer for client in clients for answer in client.result()], seconds, probes)


@pytest.fixture(scope="module")
def end(ending: Engine, drain: Drain) -> End:  # noqa: ARG001 - order
    """SIGTERM after the drain, with streams under way."""
    with ThreadPoolExecutor(LONG_STREAMS + CLIENTS) as pool:
        streams = [pool.submit(ask_for_long, ending) for _ in range(LONG_STREAMS)]
        until(lambda: ending.counter("vllm:num_requests_running") == LONG_STREAMS)
        late = [pool.submit(ask_until_none_is_taken, ending, streams=n % 2 == 0) for n in range(CLIENTS)]
        answered = ending.counter("vllm:request_success_total")
        try:
            until(lambda: ending.counter("vllm:request_success_total") >= answered + CLIENTS)
        finally:
            ending.process.send_signal(signal.SIGTERM)
        ending.process.wait(END_SECONDS)
        return End(
            [stream.result() for stream in streams], [answer for client in late for answer in client.result()]
        )


def test_the_drain_of_an_earlier_container_is_over(drain: Drain) -> None:
    assert drain.probes[0] == (200, 200)


def test_a_draining_engine_is_not_ready_but_alive(drain: Drain) -> None:
    assert drain.probes[1] == (503, 200)


def test_every_client_is_sent_away_with_a_whole_answer(drain: Drain) -> None:
    assert len(drain.answers) >= 2 * CLIENTS
    assert set(drain.answers) == {WHOLE}


def test_the_drain_waits_for_the_clients_and_no_longer(drain: Drain) -> None:
    print(f"the drain took {drain.seconds:.1f} s")
    assert FORGET_SECONDS <= drain.seconds < DRAIN_SECONDS


def test_streams_that_are_under_way_at_the_end_arrive_whole(end: End) -> None:
    assert end.long == [f"length of {LONG_TOKENS}"] * LONG_STREAMS


def test_what_comes_after_the_end_began_is_to_be_sent_again(end: End) -> None:
    statuses = Counter(response.status_code for response, _ in end.late)
    print("late requests got", dict(statuses))
    refused = [response for response, _ in end.late if response.status_code == 503]
    assert statuses.keys() == {200, 503}
    assert {(response.headers["retry-after"], response.headers["connection"]) for response in refused} == {
        ("1", "close")
    }


def test_a_request_that_is_taken_as_the_end_begins_is_answered_whole(end: End) -> None:
    assert {finish for response, finish in end.late if response.status_code == 200} == {"length of 1"}


def ask_until_sent_away(engine: Engine, *, streams: bool) -> list[str]:
    """One request after the other over one kept connection, as long as the answers leave it open."""
    ends = []
    with engine.client() as client:
        while True:
            response, end = ask(client, TOKENS, streams=streams)
            ends.append(end)
            if response.headers.get("connection") == "close":
                return ends


def ask_for_long(engine: Engine) -> str:
    with engine.client() as client:
        return ask(client, LONG_TOKENS, streams=True)[1]


def ask_until_none_is_taken(engine: Engine, *, streams: bool) -> list[tuple[httpx.Response, str]]:
    answers = []
    while True:
        try:
            with engine.client() as client:
                answers.append(ask(client, 1, streams=streams))
        except httpx.TransportError:
            return answers


def ask(client: httpx.Client, tokens: int, *, streams: bool) -> tuple[httpx.Response, str]:
    """The response, and how the answer ended."""
    body = completion_body(tokens, "def main(argv):\n    ", stream=streams)
    if streams:
        body["stream_options"] = {"include_usage": True}
    with client.stream("POST", "/v1/completions", json=body) as response:
        response.read()
    if response.is_error:
        return response, f"HTTP {response.status_code} {response.text}"
    return response, finish_of_stream(response) if streams else finish(response.json())


def finish_of_stream(response: httpx.Response) -> str:
    """As `finish`: the reason is in the last chunk of text, the tokens are in the one after it."""
    *_, last, usage, done = [line for line in response.text.splitlines() if line]
    assert done == "data: [DONE]"
    found, counted = (json.loads(line.removeprefix("data: ")) for line in (last, usage))
    return finish({**found, "usage": counted["usage"]})


def drain_command(engine: Engine) -> list[str]:
    """As in the pod's preStop, with other times."""
    times = ["--at-least", str(FORGET_SECONDS), "--at-most", str(DRAIN_SECONDS)]
    return [str(PYTHON), "-m", "outrider_engine.drain", "--port", str(httpx.URL(engine.url).port), *times]


def drain_environment(plugin: Path, drain_file: Path) -> dict[str, str]:
    return environment(plugin, OUTRIDER_DRAIN_FILE=str(drain_file))


def probe(engine: Engine) -> tuple[int, int]:
    """Status of readiness and liveness."""
    with engine.client() as client:
        return client.get("/health?readiness").status_code, client.get("/health").status_code


def until(holds: Callable[[], bool], *, seconds: float = END_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
