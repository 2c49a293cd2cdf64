"""A process that dies takes the container with it, and a lease does not outlive its time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.contract.engine import STATIC_TABLE, Engine, Launch, running_engine
from tests.contract.factories import a_constant, a_push
from tests.contract.load import WHOLE, busy
from tests.contract.processes import connections, pids

pytestmark = pytest.mark.contract

END_SECONDS = 60.0
SERVERS = 2
CONNECTIONS = 24
LEASE_SECONDS = 2.0
SERVER = "VLLM::APIServer"


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def in_force(state: dict[str, object]) -> tuple[object, ...]:
    return tuple(state[name] for name in ("source", "term", "epoch", "schedule"))


@pytest.fixture(scope="module")
def before_and_after(
    plugin: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Engine, Engine]]:
    """An engine whose core was killed, and the one that was started in its place."""
    with running_engine(plugin, tmp_path_factory.mktemp("killed")) as killed:
        killed.put(a_push(term=9, epoch=4, schedule=a_constant(5))).raise_for_status()
        (core,) = pids(killed, "VLLM::EngineCore")
        kill(core)
        killed.process.wait(timeout=END_SECONDS)
    script = str(Path(__file__).with_name("many_servers.py"))
    launch = Launch(entry=(script,), flags=("--api-server-count", str(SERVERS)))
    with running_engine(plugin, tmp_path_factory.mktemp("restarted"), launch) as restarted:
        yield killed, restarted


def test_a_killed_engine_core_ends_the_container(before_and_after: tuple[Engine, Engine]) -> None:
    killed, _ = before_and_after
    assert killed.process.poll() is not None
    with pytest.raises(httpx.TransportError):
        killed.state()


def test_a_restart_is_seen_by_the_boot_id(before_and_after: tuple[Engine, Engine]) -> None:
    killed, restarted = before_and_after
    assert killed.first_state["bootId"] != restarted.first_state["bootId"]


def test_a_restart_begins_with_the_static_table(before_and_after: tuple[Engine, Engine]) -> None:
    _, restarted = before_and_after
    assert in_force(dict(restarted.first_state)) == ("Static", 0, 0, STATIC_TABLE)


def test_every_api_server_tells_the_same_and_refuses_the_same(
    before_and_after: tuple[Engine, Engine],
) -> None:
    """Table, fence and lease are held by the engine core, not by the server that took the push."""
    _, engine = before_and_after
    engine.put(a_push(term=3, epoch=8, schedule=a_constant(5))).raise_for_status()
    port = httpx.URL(engine.url).port or 0
    with ExitStack() as stack:
        clients = [stack.enter_context(engine.client()) for _ in range(CONNECTIONS)]
        states = [client.get("/outrider/v1/state").json() for client in clients]
        older = [client.put("/outrider/v1/schedule", json=a_push(term=3, epoch=7)) for client in clients]
        spread = [connections(pid, port) for pid in pids(engine, SERVER)]
    assert {str(in_force(state)) for state in states} == {str(("Pushed", 3, 8, a_constant(5)))}
    assert {answer.status_code for answer in older} == {409}
    assert len(spread) == SERVERS
    assert min(spread) > 0, "one server had no connection, so it told nothing"


def test_a_killed_api_server_ends_the_container(before_and_after: tuple[Engine, Engine]) -> None:
    """vLLM ends as a whole, so no pod goes on with half of its servers. Last, since it ends the engine."""
    _, engine = before_and_after
    servers = pids(engine, SERVER)
    assert len(servers) == SERVERS
    kill(servers[0])
    engine.process.wait(timeout=END_SECONDS)
    with pytest.raises(httpx.TransportError):
        engine.state()


def test_a_lease_ends_in_time_under_load(engine: Engine, term: int) -> None:
    with busy(engine, streams=8) as ends:
        pushed = time.monotonic()
        engine.put(a_push(term=term, schedule=a_constant(5), lease_seconds=LEASE_SECONDS)).raise_for_status()
        assert engine.state()["source"] == "Pushed"
        while (state := engine.state())["source"] == "Pushed":
            assert time.monotonic() - pushed < LEASE_SECONDS + 5, "the lease does not lapse"
        lapsed = time.monotonic() - pushed
    assert in_force(state) == ("Fallback", term, 1, STATIC_TABLE)
    assert lapsed >= LEASE_SECONDS
    assert set(ends) == {WHOLE}
    print(f"a lease of {LEASE_SECONDS} s was seen to end after {lapsed:.2f} s")
