"""What a pod hears of the operator is of no use at another pod, and later of none at all."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from outrider.engine.client import EngineAddress, EngineClient
from outrider.engine.signing import SigningKey
from outrider_engine.control.core import EngineCoreControl
from outrider_engine.control.probe import parse_probe
from outrider_engine.control.push import parse_push
from outrider_engine.control.signature import Gate
from outrider_engine.http.request import parse_json, read_signed
from outrider_protocol.control_api import Fence, ProbeOrder, Push, Reason, Refusal, Slice
from outrider_protocol.schedule import Schedule
from tests.unit.engine_plugin.factories import FakeClock, FakeScheduler, a_control
from tests.unit.transport.played import played

KEY = SigningKey.generate()


@dataclass
class Pod:
    """The plugin of one pod, without its HTTP server."""

    uid: str
    gate: Gate
    clock: FakeClock
    control: EngineCoreControl

    async def take(self, request: httpx.Request) -> dict[str, object]:
        """The state after a request, or the reason why it was refused."""
        body = await read_signed(
            aiter(httpx.ByteStream(request.content)),
            self.gate,
            method=request.method,
            path=request.url.path,
            authorization=request.headers.get("Authorization"),
        )
        match request.method:
            case "PUT":
                return dict(self.control.put(parse_push(parse_json(body))))
            case "POST":
                return dict(self.control.start_probe(parse_probe(parse_json(body))))
            case _:
                return dict(self.control.state())

    async def refuses(self, request: httpx.Request) -> Reason:
        """The reason; nothing was changed."""
        before = self.control.state()
        with pytest.raises(Refusal) as refusal:
            await self.take(request)
        assert self.control.state() == before
        return refusal.value.reason


def a_pod(uid: str, folder: Path) -> Pod:
    file = folder / f"{uid}.pub"
    file.write_text(KEY.public_pem)
    clock = FakeClock()
    return Pod(uid, Gate(file, uid), clock, a_control(FakeScheduler(), clock=clock))


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    """The one that the operator means."""
    return a_pod("uid-1", tmp_path)


@pytest.fixture
def sibling(tmp_path: Path) -> Pod:
    """Another one of the same model, with the same key."""
    return a_pod("uid-2", tmp_path)


class Ear:
    """A listener at a pod's address that keeps all that arrives."""

    def __init__(self) -> None:
        self.heard: list[httpx.Request] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.heard.append(request)
        return httpx.Response(503, stream=httpx.ByteStream(b""))


PUSH = Push(Fence(3, 17), Schedule.constant(1), 60)
NEWER = Push(Fence(3, 18), Schedule.constant(2), 60)


@dataclass
class Overheard:
    """The operator sends to an address with another listener."""

    ear: Ear
    client: EngineClient
    pod_uid: str = "uid-1"

    @property
    def address(self) -> EngineAddress:
        return EngineAddress("http://10.0.0.7:8000", self.pod_uid, KEY)

    async def push(self, push: Push) -> httpx.Request:
        with pytest.raises(Exception, match="HTTP 503"):
            await self.client.push(self.address, push)
        return self.ear.heard[-1]

    async def probe(self, name: str, push: Push) -> httpx.Request:
        order = ProbeOrder(push.fence, name, 1, None, (Slice(0, 1.0),), deadline_seconds=9.5)
        with pytest.raises(Exception, match="HTTP 503"):
            await self.client.probe(self.address, order)
        return self.ear.heard[-1]

    async def read(self) -> httpx.Request:
        with pytest.raises(Exception, match="HTTP 503"):
            await self.client.state(self.address)
        return self.ear.heard[-1]


@pytest.fixture
async def overheard() -> AsyncIterator[Overheard]:
    ear = Ear()
    client = EngineClient(timeout_seconds=30, http=played(ear.answer))
    yield Overheard(ear, client)
    await client.aclose()


async def test_each_request_of_the_operator_is_taken_by_the_pod_it_is_meant_for(
    overheard: Overheard, pod: Pod
) -> None:
    assert (await pod.take(await overheard.push(PUSH)))["source"] == "Pushed"
    assert (await pod.take(await overheard.probe("3-1", PUSH)))["probe"] is not None
    assert (await pod.take(await overheard.read()))["epoch"] == 17


async def test_no_request_for_one_pod_is_taken_by_its_sibling(
    overheard: Overheard, pod: Pod, sibling: Pod
) -> None:
    push, probe, read = (
        await overheard.push(PUSH),
        await overheard.probe("3-1", PUSH),
        await overheard.read(),
    )
    for request in (push, probe, read):
        assert await sibling.refuses(request) is Reason.UNAUTHORIZED
    assert (await pod.take(push))["epoch"] == 17


async def test_a_replica_that_leaks_all_it_knows_cannot_push_to_its_sibling(
    overheard: Overheard, pod: Pod, sibling: Pod
) -> None:
    for push in (PUSH, NEWER):
        await pod.take(await overheard.push(push))
    lock_out = json.dumps({**NEWER.to_wire(), "term": 2**53 - 1}).encode()
    known = [request.headers["Authorization"] for request in overheard.ear.heard]
    assert pod.gate.public_key_file is not None
    known += [pod.gate.public_key_file.read_text(), pod.uid, f"Outrider-Ed25519 {'A' * 86}=="]
    made_up = SigningKey.generate()
    known.append(
        made_up.authorization(method="PUT", path="/outrider/v1/schedule", pod_uid=sibling.uid, body=lock_out)
    )
    for authorization in known:
        forged = httpx.Request(
            "PUT",
            "http://sibling/outrider/v1/schedule",
            content=lock_out,
            headers={"Authorization": authorization.replace("\n", " ")},
        )
        assert await sibling.refuses(forged) is Reason.UNAUTHORIZED
    overheard.pod_uid = sibling.uid
    assert (await sibling.take(await overheard.push(PUSH)))["epoch"] == 17


async def test_a_foreign_pod_with_the_models_labels_hears_nothing_that_a_replica_takes(
    overheard: Overheard, pod: Pod
) -> None:
    overheard.pod_uid = "uid-of-a-foreign-pod"
    for request in (await overheard.push(PUSH), await overheard.probe("3-1", PUSH), await overheard.read()):
        assert await pod.refuses(request) is Reason.UNAUTHORIZED


async def test_a_replayed_older_push_is_refused(overheard: Overheard, pod: Pod) -> None:
    older, newer = await overheard.push(PUSH), await overheard.push(NEWER)
    await pod.take(older)
    await pod.take(newer)
    assert await pod.refuses(older) is Reason.STALE_EPOCH


async def test_a_replayed_push_of_the_table_in_force_leaves_it_in_force(
    overheard: Overheard, pod: Pod
) -> None:
    newest = await overheard.push(NEWER)
    assert await pod.take(newest) == await pod.take(newest)


async def test_a_replayed_probe_is_not_run_again_whatever_came_after_it(
    overheard: Overheard, pod: Pod
) -> None:
    await pod.take(await overheard.push(PUSH))
    first, second = await overheard.probe("3-1", PUSH), await overheard.probe("3-2", PUSH)
    for probe in (first, second):
        await pod.take(probe)
        pod.clock.advance(10)
    state = await pod.take(first)
    assert state == pod.control.state()
    probe_state = pod.control.state()["probe"]
    assert probe_state is not None
    assert (probe_state["id"], probe_state["running"]) == ("3-2", False)


async def test_a_probe_of_an_older_table_is_refused(overheard: Overheard, pod: Pod) -> None:
    await pod.take(await overheard.push(PUSH))
    probe = await overheard.probe("3-1", PUSH)
    await pod.take(probe)
    await pod.take(await overheard.push(NEWER))
    assert await pod.refuses(probe) is Reason.STALE_EPOCH


async def test_a_replayed_read_changes_nothing(overheard: Overheard, pod: Pod) -> None:
    await pod.take(await overheard.push(PUSH))
    before = pod.control.state()
    assert await pod.take(await overheard.read()) == before


async def test_what_goes_out_holds_no_secret(overheard: Overheard) -> None:
    secret = KEY.private_pem.splitlines()[1]
    for request in (await overheard.push(PUSH), await overheard.read()):
        assert secret not in str(request.headers.raw)
        assert secret.encode() not in request.content
