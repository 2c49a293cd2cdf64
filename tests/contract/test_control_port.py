"""The control API on a port of its own: there alone, and nothing else there."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from outrider_protocol.environment import CONTROL_PORT_VARIABLE
from tests.contract.engine import REQUEST_SECONDS, Engine, running_engine, signing_client
from tests.contract.factories import a_push
from tests.contract.twin import twin_launch
from tests.ports import free_port

pytestmark = pytest.mark.contract

ROUTES = [
    ("GET", "/outrider/v1/state"),
    ("GET", "/outrider/v1/counters"),
    ("PUT", "/outrider/v1/schedule"),
    ("POST", "/outrider/v1/probe"),
    ("PUT", "/outrider/v1/measuring"),
]
STATE, SCHEDULE = ROUTES[0][1], ROUTES[2][1]
END_SECONDS = 120.0
A_LOOK_AT_A_DYING_CORE = re.compile(r"psutil\.(ZombieProcess|NoSuchProcess)\b")
"""vLLM's own defect, see docs/reference/versions.md: "An end with exit code 1"."""


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def engine(plugin: Path, twin: Path, port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    variables: dict[str, Any] = {CONTROL_PORT_VARIABLE: str(port)}
    launch = twin_launch(plugin, twin, **variables)
    with running_engine(plugin, tmp_path_factory.mktemp("control-port"), launch) as engine:
        yield engine


@pytest.fixture
def control(engine: Engine, port: int) -> Iterator[httpx.Client]:  # noqa: ARG001  it serves the port
    with signing_client(f"http://127.0.0.1:{port}") as client:
        yield client


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_the_serving_port_has_no_route_of_the_control_api(engine: Engine, method: str, path: str) -> None:
    with engine.client() as client:
        assert client.request(method, path, json={}).status_code == 404


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/health", "/docs", "/openapi.json"])
def test_the_control_port_serves_nothing_else(control: httpx.Client, path: str) -> None:
    assert control.get(path).status_code == 404


def test_a_push_at_the_control_port_is_in_force(control: httpx.Client, term: int) -> None:
    control.put(SCHEDULE, json=a_push(term=term)).raise_for_status()
    state = control.get(STATE).json()
    assert (state["source"], state["term"]) == ("Pushed", term)


def test_the_control_port_asks_for_a_signature(port: int, control: httpx.Client) -> None:
    assert control.get(STATE).is_success
    plain = httpx.get(f"http://127.0.0.1:{port}{STATE}", timeout=REQUEST_SECONDS, trust_env=False)
    assert (plain.status_code, plain.json()["error"]["reason"]) == (401, "Unauthorized")


def test_clients_and_scrapes_find_what_they_look_for_at_the_serving_port(engine: Engine) -> None:
    assert engine.complete(max_tokens=4)["choices"]
    assert engine.counter("vllm:generation_tokens_total") >= 4


def test_an_open_connection_to_the_control_port_holds_up_no_end(
    engine: Engine, control: httpx.Client
) -> None:
    """The last test of the file: the engine is gone afterwards."""
    assert control.get(STATE).is_success
    began = time.monotonic()
    engine.process.send_signal(signal.SIGTERM)
    code = engine.process.wait(timeout=END_SECONDS)
    print(f"ended with {code} after {time.monotonic() - began:.1f} s")
    log = engine.log_file.read_text()
    assert code == 0 or (code == 1 and A_LOOK_AT_A_DYING_CORE.search(log)), log[-4000:]
