"""What one tenant stores, serves or asks neither ends the operator nor stops its work for another tenant.

One API server and one operator for all of it: what a test leaves behind is there for the next one. Memory is
that of the real process, under the chart's limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from outrider.cluster.term_lock import LEASE_SECONDS
from outrider.plan.names import MODEL_LABEL
from tests.attack.engines import PAGE, serving_engines
from tests.attack.room import HEALTHY, Operator, Room, prepare
from tests.lifecycle.api_server import an_api_server
from tests.lifecycle.stored_models import a_model, eventually

MEGABYTE = 1_000_000
MANAGED = {"app.kubernetes.io/managed-by": "outrider"}


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    with serving_engines() as engines, an_api_server(tmp_path_factory.mktemp("api-server")) as server:
        yield prepare(server, engines)


@pytest.fixture(scope="module")
def operator(room: Room) -> Iterator[Operator]:
    with room.operator("operator") as operator:
        room.assert_the_healthy_model_is_served()
        operator.assert_alive_within_its_memory("one healthy model")
        yield operator


@contextmanager
def unharmed(room: Room, operator: Operator, what: str) -> Iterator[None]:
    """After the block the process is the same leader, within its memory, and serves the healthy model."""
    leadership = room.leadership()
    operator.forget_peak()
    yield
    room.assert_the_healthy_model_is_served()
    operator.assert_alive_within_its_memory(what)
    assert room.leadership() == leadership
    assert room.leadership()[0]


def test_a_model_of_one_megabyte_of_wrong_values(room: Room, operator: Operator) -> None:
    with unharmed(room, operator, "a SpeculativeModel of 1.4 MB"):
        room.create_model(a_model("poison", engine={"image": "e", "args": {"seed": [{}] * 350_000}}))
        eventually("it is told", lambda: room.reason("poison") == "InvalidSpec")


def test_a_hundred_labelled_config_maps_of_one_megabyte(room: Room, operator: Operator) -> None:
    data = {"filler": "x" * MEGABYTE}

    def create(number: int) -> None:
        # Every other one says that it belongs to a model that there is.
        labels = {**MANAGED, MODEL_LABEL: HEALTHY} if number % 2 else MANAGED
        room.create_config_map({"metadata": {"name": f"large-{number}", "labels": labels}, "data": data})

    with unharmed(room, operator, "100 labelled ConfigMaps of 1 MB"):
        room.at_once(create, range(100))


def test_an_engine_that_answers_with_one_megabyte_of_schedule(room: Room, operator: Operator) -> None:
    with unharmed(room, operator, "an engine that answers 1 MiB"):
        room.create_model(a_model("hostile"))
        engine = room.start_engine("hostile", "hostile-1")
        state = str(engine.state()).replace("'", '"')
        engine.answer = 200, state[:-1] + ',"schedule":[' + "1," * 524_000 + "1]}"
        engine.asked = 0
        eventually("it is asked", lambda: engine.asked >= 3)


def test_a_page_of_metrics_with_a_number_of_400_digits(room: Room, operator: Operator) -> None:
    with unharmed(room, operator, "a timestamp of 400 digits"):
        room.create_model(a_model("page"))
        engine = room.start_engine("page", "page-1")
        engine.metrics = f"{PAGE}outrider:epoch 1 {'9' * 400}\n"
        eventually("it is scraped", lambda: engine.scrapes >= 3)


def test_fifty_silent_pods_of_one_tenant(room: Room, operator: Operator) -> None:
    """Ticks of the healthy model continue while requests to the silent pods wait for their timeout."""
    with unharmed(room, operator, "50 silent engines"):
        room.create_model(a_model("silent", replicas=50))
        silent = room.at_once(lambda number: room.start_engine("silent", f"silent-{number}"), range(50))
        eventually("they are tuned", lambda: all(engine.puts for engine in silent))
        for engine in silent:
            engine.hangs = True
        (healthy,) = room.healthy
        eventually("they are late", lambda: operator.metric("outrider_operator_late_models") == 1)
        before, began = (healthy.scrapes, sum(engine.scrapes for engine in silent)), time.monotonic()
        eventually("the healthy one is measured", lambda: healthy.scrapes >= before[0] + 20)
        scrapes = (sum(engine.scrapes for engine in silent) - before[1]) / len(silent)
        assert scrapes <= (time.monotonic() - began) / 3 + 2, "one request at a time, for 3 s"
        for engine in silent:
            engine.hangs = False
        eventually("they are tuned again", lambda: operator.metric("outrider_operator_late_models") == 0)


def test_a_selector_that_takes_a_pattern_long(room: Room, operator: Operator) -> None:
    owner = {
        "apiVersion": "outrider.dev/v1alpha1",
        "kind": "SpeculativeModel",
        "name": "selector",
        "uid": "of-another",
        "controller": True,
    }
    taken = {"name": "selector-schedule", "finalizers": ["example.com/stays"], "ownerReferences": [owner]}
    selector = {"nvidia.com/gpu.product": "-MIG-1g.5gb" * 20_000 + "\n\n"}
    with unharmed(room, operator, "a selector of 220 kB"):
        room.create_config_map({"metadata": {**taken, "labels": MANAGED}})
        room.create_model(a_model("selector", podTemplate={"spec": {"nodeSelector": selector}}))
        eventually("it is told", lambda: room.reason("selector") == "ReconcileFailed")


def test_a_flood_of_readers_of_the_metrics(room: Room, operator: Operator) -> None:
    """For longer than a leader that renews nothing stays one."""
    url = f"http://127.0.0.1:{operator.port}/metrics"

    async def read_for(seconds: float) -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(limits=limits, timeout=5.0) as http, asyncio.timeout(seconds):
            await asyncio.gather(*(read(http) for _ in range(200)))

    async def read(http: httpx.AsyncClient) -> None:
        while True:
            try:
                await http.get(url)
            except httpx.HTTPError:
                await asyncio.sleep(0.1)

    with unharmed(room, operator, "200 readers of /metrics"), pytest.raises(TimeoutError):
        asyncio.run(read_for(LEASE_SECONDS + 1.0))


def test_850_pods_of_one_tenant(room: Room, operator: Operator) -> None:
    """Twenty of them serve: to answer as 850 engines would take this machine more than to ask them."""
    with unharmed(room, operator, "850 engine pods"):
        room.create_model(a_model("fleet", replicas=850))
        room.at_once(lambda number: room.start_engine("fleet", f"fleet-{number}"), range(20))
        room.at_once(lambda number: room.create_pod("fleet", f"fleet-{number}"), range(20, 850))
        eventually("all are known", lambda: room.status("fleet").get("replicas") == 850)


def test_a_restart_with_all_of_it_there(room: Room, operator: Operator) -> None:
    operator.process.terminate()
    operator.process.wait(60)
    with room.operator("after-the-restart") as again:
        room.assert_the_healthy_model_is_served()
        again.assert_alive_within_its_memory("a start with all of it there")
        assert room.leadership()[0]
        assert room.reason("poison") == "InvalidSpec"
