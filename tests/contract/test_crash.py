"""A process that dies takes the container with it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

from outrider_engine.drain import open_connections, wait_for_clients
from tests.contract import quick_start
from tests.contract.engine import OWN_WORKER, STATIC_TABLE, Engine, Launch, running_engine, signing_client
from tests.contract.engine_process import fork
from tests.contract.factories import a_constant, a_push
from tests.contract.measuring import run_streams, scrape, settled, wait_until
from tests.contract.processes import connections, pids
from tests.contract.twin import twin_launch

pytestmark = pytest.mark.contract

END_SECONDS = 180.0
SERVERS = 2
CONNECTIONS = 8
"""Of each server."""
SERVER = "VLLM::APIServer"
UNDER_WAY_SECONDS = 2.0


@dataclass(frozen=True)
class Crash:
    """An engine whose core was killed while a push was under way, and one started in its place."""

    killed: Engine
    answer: httpx.Response
    """To the push."""
    restarted: Engine
    drain_file: Path
    """Of the restarted one."""


LASTING = httpx.Limits(keepalive_expiry=None)
"""Of connections: neither a client nor an engine closes one that is idle."""


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def push_into_a_crash(engine: Engine) -> httpx.Response:
    """The core takes the push from its socket no more, and dies."""
    (core,) = pids(engine, "VLLM::EngineCore")
    os.kill(core, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        push = pool.submit(engine.put, a_push(term=9, epoch=5, schedule=a_constant(2)))
        with pytest.raises(TimeoutError):
            push.result(timeout=UNDER_WAY_SECONDS)
        kill(core)
        return push.result()


def clients_of_each_server(engine: Engine, stack: ExitStack) -> list[httpx.Client]:
    """With open connections. The others are stopped meanwhile: the kernel may give one server all of them."""
    wait_until(lambda: len(pids(engine, SERVER)) == SERVERS, "not every API server has its name")
    servers, found = pids(engine, SERVER), list[httpx.Client]()
    for server in servers:
        others = [pid for pid in servers if pid != server]
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        try:
            for _ in range(CONNECTIONS):
                found.append(stack.enter_context(signing_client(engine.url, limits=LASTING)))
                found[-1].get("/health").raise_for_status()
        finally:
            for pid in others:
                os.kill(pid, signal.SIGCONT)
    return found


def in_force(state: dict[str, object]) -> tuple[object, ...]:
    return tuple(state[name] for name in ("source", "term", "epoch", "schedule"))


@pytest.fixture(scope="module")
def crash(plugin: Path, twin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crash]:
    """What happens to a push in a crash, and what comes after it: a stand-in, since no tensor matters."""
    quick = Launch(plugins=(quick_start.NAME,), variables=OWN_WORKER)
    with running_engine(plugin, tmp_path_factory.mktemp("killed"), quick) as killed:
        killed.put(a_push(term=9, epoch=4, schedule=a_constant(5))).raise_for_status()
        answer = push_into_a_crash(killed)
        killed.process.wait(timeout=END_SECONDS)
    script = str(Path(__file__).with_name("many_servers.py"))
    drain_file = tmp_path_factory.mktemp("pod") / "drain"
    launch = twin_launch(
        plugin,
        twin,
        entry=(script,),
        flags=("--api-server-count", str(SERVERS)),
        OUTRIDER_DRAIN_FILE=str(drain_file),
        VLLM_HTTP_TIMEOUT_KEEP_ALIVE="600",
    )
    start = partial(fork, spawns=True)
    with running_engine(plugin, tmp_path_factory.mktemp("restarted"), launch, start=start) as restarted:
        yield Crash(killed, answer, restarted, drain_file)


def test_a_killed_engine_core_ends_the_container_though_a_push_waits_for_it(crash: Crash) -> None:
    assert crash.killed.process.poll() is not None
    with pytest.raises(httpx.TransportError):
        crash.killed.state()


def test_a_push_that_waits_for_a_dying_engine_core_is_refused(crash: Crash) -> None:
    assert crash.answer.status_code == 503
    assert crash.answer.json()["error"]["reason"] == "LiveTuningImpossible"


def test_a_restart_is_seen_by_the_boot_id(crash: Crash) -> None:
    assert crash.killed.first_state["bootId"] != crash.restarted.first_state["bootId"]


def test_a_restart_begins_with_the_static_table(crash: Crash) -> None:
    assert in_force(dict(crash.restarted.first_state)) == ("Static", 0, 0, STATIC_TABLE)


def test_every_api_server_tells_the_same_and_refuses_the_same(crash: Crash) -> None:
    """Table, fence and lease are held by the engine core, not by the server that took the push."""
    engine = crash.restarted
    engine.put(a_push(term=3, epoch=8, schedule=a_constant(5))).raise_for_status()
    port = httpx.URL(engine.url).port or 0
    with ExitStack() as stack:
        clients = clients_of_each_server(engine, stack)
        states = [client.get("/outrider/v1/state").json() for client in clients]
        older = [client.put("/outrider/v1/schedule", json=a_push(term=3, epoch=7)) for client in clients]
        spread = [connections(pid, port) for pid in pids(engine, SERVER)]
    assert {str(in_force(state)) for state in states} == {str(("Pushed", 3, 8, a_constant(5)))}
    assert {answer.status_code for answer in older} == {409}
    assert spread == [CONNECTIONS] * SERVERS


def test_every_api_server_tells_the_same_sums(crash: Crash) -> None:
    engine, before = crash.restarted, scrape(crash.restarted)
    settled(engine, before=before, tokens=run_streams(engine, streams=2, requests=1, max_tokens=20))
    # Each scrape is a connection of its own, and the kernel gives it to either server.
    answers = [scrape(engine).total("outrider:emitted_tokens_total") for _ in range(12)]
    assert len(set(answers)) == 1
    assert answers[0] > 0


def test_one_of_several_api_servers_runs_the_self_test(crash: Crash) -> None:
    assert crash.restarted.first_state["selfTest"]["state"] == "Passed"  # type: ignore[index]
    assert crash.restarted.log_file.read_text(errors="replace").count("outrider: self-test Passed") == 1


def test_every_api_server_sends_its_clients_away_while_the_engine_drains(crash: Crash) -> None:
    engine, port = crash.restarted, httpx.URL(crash.restarted.url).port or 0
    with ExitStack() as stack:
        clients = clients_of_each_server(engine, stack)
        before = [client.get("/health") for client in clients]
        spread = [connections(pid, port) for pid in pids(engine, SERVER)]
        crash.drain_file.touch()
        during = [client.get("/health") for client in clients]
        crash.drain_file.unlink()
        wait_for_clients(lambda: open_connections(port), at_least=0, at_most=END_SECONDS)
        assert open_connections(port) == 0
    assert spread == [CONNECTIONS] * SERVERS
    assert {answer.headers.get("connection") for answer in before} == {None}
    assert {answer.headers.get("connection") for answer in during} == {"close"}


def test_a_killed_api_server_ends_the_container(crash: Crash) -> None:
    """vLLM ends as a whole, so no pod continues with half of its servers. Last, as it ends the engine."""
    engine = crash.restarted
    servers = pids(engine, SERVER)
    assert len(servers) == SERVERS
    kill(servers[0])
    engine.process.wait(timeout=END_SECONDS)
    with pytest.raises(httpx.TransportError):
        engine.state()
