"""The engine client: every answer becomes a state or one error of the tree."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import aiohttp
import httpx
import pytest

from outrider.engine.client import EngineClient
from outrider.engine.errors import (
    EngineProtocolError,
    EngineUnreachable,
    LiveTuningImpossible,
    NotSent,
    ProbeRunning,
    PushRefused,
    SignatureRefused,
    StaleTerm,
)
from outrider.engine.state import EngineState
from outrider_protocol.control_api import Fence, ProbeOrder, Push, Slice
from outrider_protocol.engine_state import Source
from outrider_protocol.schedule import Schedule
from tests.unit.engine.fake_engine import KEY, FakeEngine, an_address, serving
from tests.unit.transport.played import played


@pytest.fixture
async def client() -> AsyncIterator[EngineClient]:
    # Long enough for a busy machine; only tests of silent engines wait for it.
    client = EngineClient(timeout_seconds=10)
    yield client
    await client.aclose()


@pytest.fixture
async def impatient() -> AsyncIterator[EngineClient]:
    client = EngineClient(timeout_seconds=0.25)
    yield client
    await client.aclose()


def a_push(k: int = 1, *, term: int = 1, epoch: int = 1) -> Push:
    return Push(Fence(term, epoch), Schedule.constant(k), 60)


async def test_reads_the_state(client: EngineClient) -> None:
    async with serving(FakeEngine()) as [pod]:
        state = await client.state(pod.address)
    assert state.schedule == Schedule.constant(3)
    assert state.source is Source.STATIC
    assert state.captured_k == {0, 1, 3, 5}


async def test_a_process_that_no_longer_leads_asks_engines_and_changes_nothing() -> None:
    leads, order = True, ProbeOrder(Fence(1, 1), "p", 1, None, (Slice(0, 1.0),), deadline_seconds=9.0)
    client = EngineClient(timeout_seconds=10, leads=lambda: leads)
    engine = FakeEngine()
    async with serving(engine) as [pod]:
        await client.push(pod.address, a_push())
        leads = False
        with pytest.raises(NotSent, match="no longer holds the Lease"):
            await client.push(pod.address, a_push(epoch=2))
        with pytest.raises(NotSent):
            await client.probe(pod.address, order)
        assert (await client.state(pod.address)).epoch == 1
    assert (engine.puts, engine.posted) == (1, [])
    await client.aclose()


@pytest.mark.parametrize(("idle", "connections"), [(0.0, 1), (4.0, 2)])
async def test_no_connection_is_used_that_the_engine_may_be_closing(
    client: EngineClient, monkeypatch: pytest.MonkeyPatch, idle: float, connections: int
) -> None:
    engine, clock = FakeEngine(), time.monotonic
    async with serving(engine) as [pod]:
        await client.state(pod.address)
        monkeypatch.setattr(aiohttp.connector, "monotonic", lambda: clock() + idle)
        await client.state(pod.address)
    assert len(engine.callers) == connections


async def test_a_push_is_confirmed_by_the_state(client: EngineClient) -> None:
    async with serving(FakeEngine()) as [pod]:
        state = await client.push(pod.address, a_push(1, term=2, epoch=7))
    assert state.confirms(a_push(1, term=2, epoch=7))
    assert not state.confirms(a_push(1, term=2, epoch=8))


async def test_a_stale_epoch_is_its_own_error(client: EngineClient) -> None:
    async with serving(FakeEngine(term=5)) as [pod]:
        with pytest.raises(StaleTerm, match="StaleEpoch"):
            await client.push(pod.address, a_push(term=4))


async def test_a_table_with_a_value_that_was_not_captured_is_refused(client: EngineClient) -> None:
    async with serving(FakeEngine()) as [pod]:
        with pytest.raises(PushRefused) as refused:
            await client.push(pod.address, a_push(2))
    assert refused.value.reason == "NotCaptured"


async def test_an_engine_that_cannot_tune_says_why(client: EngineClient) -> None:
    async with serving(FakeEngine(live_reason="data parallelism drops the table")) as [pod]:
        with pytest.raises(LiveTuningImpossible, match="data parallelism"):
            await client.push(pod.address, a_push())


async def test_a_hanging_engine_is_unreachable(impatient: EngineClient) -> None:
    async with serving(FakeEngine(hangs=True)) as [pod]:
        with pytest.raises(EngineUnreachable, match=r"timeout: no complete answer within 0\.25 s"):
            await impatient.state(pod.address)


async def test_an_engine_that_drips_is_unreachable_after_the_timeout(impatient: EngineClient) -> None:
    async with serving(FakeEngine(drips=True)) as [pod]:
        with pytest.raises(EngineUnreachable, match="timeout"):
            await impatient.state(pod.address)


async def test_an_answer_without_bounds_is_a_protocol_error(client: EngineClient) -> None:
    async with serving(FakeEngine(answer=(200, " " * 2_000_000))) as [pod]:
        with pytest.raises(EngineProtocolError, match="larger than"):
            await client.state(pod.address)


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "br", "identity, gzip"])
async def test_a_compressed_answer_is_a_protocol_error_and_not_unpacked(encoding: str) -> None:
    client = EngineClient(timeout_seconds=30, http=played(packed(encoding)))
    with pytest.raises(EngineProtocolError, match="compressed"):
        await client.state(an_address())


def packed(encoding: str) -> Callable[[httpx.Request], httpx.Response]:
    """Three zeros in an answer of a hundred bytes; a real one would be a hundred million."""
    body = gzip.compress(gzip.compress(b"000"))
    stream = httpx.ByteStream(body)
    return lambda _: httpx.Response(200, headers={"Content-Encoding": encoding}, stream=stream)


@pytest.mark.parametrize(
    "raised",
    [
        UnicodeDecodeError("ascii", b"\xff", 0, 1, "x"),
        TypeError("x"),
        LookupError("unknown encoding: x"),
        RecursionError(),
    ],
    ids=lambda raised: type(raised).__name__,
)
async def test_whatever_http_raises_over_an_answer_is_a_protocol_error(raised: Exception) -> None:
    def stumbles(_: httpx.Request) -> httpx.Response:
        raise raised

    client = EngineClient(timeout_seconds=5, http=played(stumbles))
    with pytest.raises(EngineProtocolError, match=f"cannot parse the answer: {type(raised).__name__}"):
        await client.state(an_address())


async def test_a_closed_port_is_unreachable(client: EngineClient) -> None:
    async with serving(FakeEngine()) as [pod]:
        address = pod.address
    with pytest.raises(EngineUnreachable, match=r"^cannot connect: Connection refused$"):
        await client.state(address)


async def test_an_engine_is_asked_at_its_control_port_where_it_has_one(client: EngineClient) -> None:
    async with serving(FakeEngine()) as [pod]:
        address = replace(pod.address, url="http://127.0.0.1:1", control_url=pod.address.url)
        assert (await client.state(address)).boot_id


@pytest.mark.parametrize("raised", [ConnectionResetError("reset"), TimeoutError()], ids=str)
async def test_a_silent_control_port_says_what_may_be_in_the_way(raised: Exception) -> None:
    def stumbles(_: httpx.Request) -> httpx.Response:
        raise raised

    client = EngineClient(timeout_seconds=5, http=played(stumbles))
    with pytest.raises(EngineUnreachable, match=r"older plugin has none, or a NetworkPolicy keeps"):
        await client.state(replace(an_address(), control_url="http://10.0.0.7:8091"))


async def test_an_engine_without_the_plugin_is_named(client: EngineClient) -> None:
    async with serving(FakeEngine(answer=(404, '{"detail":"Not Found"}'))) as [pod]:
        with pytest.raises(
            EngineProtocolError, match="no control API: the engine runs without the outrider_engine plugin"
        ):
            await client.state(pod.address)


def an_order(id_: str = "p1", *, epoch: int = 1, high: int | None = 12) -> ProbeOrder:
    slices = (Slice(1, 1.0), Slice(0, 0.5))
    return ProbeOrder(Fence(1, epoch), id_, 7, high, slices, deadline_seconds=20)


async def test_a_probe_is_ordered_as_the_contract_says(client: EngineClient) -> None:
    engine = FakeEngine()
    async with serving(engine) as [pod]:
        await client.push(pod.address, a_push())
        state = await client.probe(pod.address, an_order("p42"))
    assert engine.posted == [
        {
            "term": 1,
            "epoch": 1,
            "id": "p42",
            "minBatchSize": 7,
            "maxBatchSize": 12,
            "slices": [
                {"numSpeculativeTokens": 1, "seconds": 1.0},
                {"numSpeculativeTokens": 0, "seconds": 0.5},
            ],
            "deadlineSeconds": 20,
        }
    ]
    assert state.probe is not None
    assert (state.probe.id, state.probe.running, state.probe.reason) == ("p42", True, "Running")


def test_a_probe_of_the_last_bin_has_no_upper_end() -> None:
    order = an_order(high=None)
    assert "maxBatchSize" not in order.to_wire()


async def test_the_same_probe_again_is_fine_and_another_one_is_its_own_error(client: EngineClient) -> None:
    async with serving(FakeEngine()) as [pod]:
        await client.push(pod.address, a_push())
        await client.probe(pod.address, an_order("p1"))
        await client.probe(pod.address, an_order("p1"))
        with pytest.raises(ProbeRunning, match="p1 is under way"):
            await client.probe(pod.address, an_order("p2"))


async def test_a_probe_on_another_table_is_stale(client: EngineClient) -> None:
    async with serving(FakeEngine()) as [pod]:
        await client.push(pod.address, a_push())
        with pytest.raises(StaleTerm):
            await client.probe(pod.address, an_order(epoch=7))


async def test_a_plugin_without_probes_is_named_and_its_state_is_read(client: EngineClient) -> None:
    async with serving(FakeEngine(probes=False)) as [pod]:
        state = await client.push(pod.address, a_push())
        with pytest.raises(EngineProtocolError, match="no probes in the control API"):
            await client.probe(pod.address, an_order())
    assert state.probe is None


@pytest.mark.parametrize("body", ["", "{}", "null", '{"bootId": 1}', "<html>"])
async def test_an_unreadable_state_is_a_protocol_error(client: EngineClient, body: str) -> None:
    async with serving(FakeEngine(answer=(200, body))) as [pod]:
        with pytest.raises(EngineProtocolError, match="cannot parse the state"):
            await client.state(pod.address)


async def test_a_malformed_table_in_the_state_is_a_protocol_error(client: EngineClient) -> None:
    engine = FakeEngine(schedule=[{"maxBatchSize": 4, "numSpeculativeTokens": 1}])
    async with serving(engine) as [pod]:
        with pytest.raises(EngineProtocolError, match="last row"):
            await client.state(pod.address)


@pytest.mark.parametrize("schedule", [5, "8:3", True, {}, [5], [None], [[]], [{}], []])
async def test_a_table_that_is_none_is_a_protocol_error(client: EngineClient, schedule: object) -> None:
    async with serving(FakeEngine(schedule=schedule)) as [pod]:  # type: ignore[arg-type]
        with pytest.raises(EngineProtocolError, match="cannot parse the state: schedule"):
            await client.state(pod.address)


ONE = {"numSpeculativeTokens": 1}
BEYOND: dict[str, dict[str, object]] = {
    "term": {"term": 2**53},
    "epoch": {"epoch": -1},
    "many captured K": {"captured": frozenset(range(65))},
    "a long captured K": {"captured": frozenset({1025})},
    "many failed K": {"failed": frozenset(range(65))},
    "a long K": {"schedule": [{"numSpeculativeTokens": 1025}]},
    "a large batch": {"schedule": [{"maxBatchSize": 10**9, **ONE}, ONE]},
    "many rows": {"schedule": [*({"maxBatchSize": row, **ONE} for row in range(1, 65)), ONE]},
    "boot id": {"boot_id": "x" * 129},
}


@pytest.mark.parametrize("beyond", BEYOND.values(), ids=BEYOND)
async def test_what_an_engine_says_has_bounds(client: EngineClient, beyond: dict[str, object]) -> None:
    async with serving(FakeEngine(**beyond)) as [pod]:  # type: ignore[arg-type]
        with pytest.raises(EngineProtocolError, match="cannot parse the state"):
            await client.state(pod.address)


AT_THE_BOUND: dict[str, dict[str, object]] = {
    "term": {"term": 2**53 - 1},
    "many captured K": {"captured": frozenset(range(64))},
    "a long captured K": {"captured": frozenset({1024})},
    "many failed K": {"failed": frozenset(range(64))},
    "a long K": {"schedule": [{"numSpeculativeTokens": 1024}]},
    "a large batch": {"schedule": [{"maxBatchSize": 10**9 - 1, **ONE}, ONE]},
    "a small batch": {"schedule": [{"maxBatchSize": 1, **ONE}, ONE]},
    "many rows": {"schedule": [*({"maxBatchSize": row, **ONE} for row in range(1, 64)), ONE]},
    "boot id": {"boot_id": "x" * 128},
}


@pytest.mark.parametrize("said", AT_THE_BOUND.values(), ids=AT_THE_BOUND)
def test_what_is_within_the_bounds_is_read(said: dict[str, object]) -> None:
    engine = FakeEngine(**said)  # type: ignore[arg-type]
    assert EngineState.model_validate(engine.state()).boot_id == engine.boot_id


def a_state(**changes: object) -> str:
    """What an engine answers, with a probe."""
    slice_ = {"numSpeculativeTokens": 0}
    probe = {"id": "p", "running": False, "reason": "Completed", "minBatchSize": 1, "results": [slice_]}
    return json.dumps({**FakeEngine().state(), "probe": probe, **changes})


async def test_of_what_a_slice_does_not_tell_there_was_none(client: EngineClient) -> None:
    async with serving(FakeEngine(answer=(200, a_state()))) as [pod]:
        state = await client.state(pod.address)
    assert state.probe is not None
    [found] = state.probe.results
    assert (found.steps, found.seconds, found.scheduled_requests, found.emitted_tokens) == (0, 0, 0, 0)


@pytest.mark.parametrize("amount", ["-1", "-1e-9", "NaN", "Infinity"])
async def test_an_amount_is_a_number_from_zero_on(client: EngineClient, amount: str) -> None:
    body = a_state(leaseRemainingSeconds="?").replace('"?"', amount)
    async with serving(FakeEngine(answer=(200, body))) as [pod]:
        with pytest.raises(EngineProtocolError, match="cannot parse the state"):
            await client.state(pod.address)


@pytest.mark.parametrize("changes", [{"epoch": -1}, {"term": -1}, {"capturedK": [-1]}])
async def test_a_number_below_zero_is_a_protocol_error(
    client: EngineClient, changes: dict[str, object]
) -> None:
    async with serving(FakeEngine(answer=(200, a_state(**changes)))) as [pod]:
        with pytest.raises(EngineProtocolError, match="cannot parse the state"):
            await client.state(pod.address)


async def test_a_row_for_no_request_is_a_protocol_error(client: EngineClient) -> None:
    async with serving(FakeEngine(schedule=[{"maxBatchSize": 0, **ONE}, ONE])) as [pod]:
        with pytest.raises(EngineProtocolError, match="cannot parse the state"):
            await client.state(pod.address)


@pytest.mark.parametrize(
    ("changes", "confirmed"),
    [
        ({}, True),
        ({"source": "Fallback"}, False),
        ({"source": "Static"}, False),
        ({"term": 1}, False),
        ({"term": 3}, False),
        ({"epoch": 6}, False),
        ({"epoch": 8}, False),
        ({"enginesAgree": False}, False),
        ({"schedule": None}, False),
        ({"schedule": [{"numSpeculativeTokens": 0}]}, False),
        ({"schedule": [{"numSpeculativeTokens": 3}]}, False),
        ({"schedule": [{"maxBatchSize": 4, **ONE}, ONE]}, True),
    ],
)
def test_a_push_is_confirmed_only_by_exactly_this_table_in_force(
    changes: dict[str, object], confirmed: bool
) -> None:
    said = {"source": "Pushed", "term": 2, "epoch": 7, "schedule": [ONE], **changes}
    state = EngineState.model_validate_json(a_state(**said))
    assert state.confirms(a_push(1, term=2, epoch=7)) is confirmed


def test_one_engine_process_agrees_with_itself_where_it_says_nothing_of_that() -> None:
    wire = json.loads(a_state(source="Pushed", term=2, epoch=7, schedule=[ONE]))
    wire.pop("enginesAgree", None)
    assert EngineState.model_validate(wire).confirms(a_push(1, term=2, epoch=7))


def test_a_long_sentence_is_cut_after_512_letters() -> None:
    wire = json.loads(a_state(liveTuning={"possible": False, "reason": "x" * 600}))
    assert EngineState.model_validate(wire).live_tuning.reason == "x" * 512


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (aiohttp.ServerDisconnectedError(), "^the pod closed the connection without an answer$"),
        (aiohttp.ClientPayloadError("x"), "^the answer is not complete$"),
        (ConnectionResetError("x"), "^ConnectionResetError: x$"),
        (ConnectionResetError(), "^ConnectionResetError$"),
    ],
)
async def test_an_unreachable_engine_is_reported_with_the_cause(error: Exception, words: str) -> None:
    def stumbles(_: httpx.Request) -> httpx.Response:
        raise error

    client = EngineClient(timeout_seconds=5, http=played(stumbles))
    with pytest.raises(EngineUnreachable, match=words):
        await client.state(an_address())


async def test_the_first_unreadable_field_is_named(client: EngineClient) -> None:
    async with serving(FakeEngine(answer=(200, a_state(bootId=5, epoch="later")))) as [pod]:
        with pytest.raises(EngineProtocolError, match="cannot parse the state: bootId: "):
            await client.state(pod.address)


async def test_what_is_no_object_is_reported_as_the_whole_body(client: EngineClient) -> None:
    async with serving(FakeEngine(answer=(200, "[]"))) as [pod]:
        with pytest.raises(EngineProtocolError, match="cannot parse the state: body: "):
            await client.state(pod.address)


async def test_an_error_without_a_reason_is_reported_by_its_status(client: EngineClient) -> None:
    async with serving(FakeEngine(answer=(500, "oops"))) as [pod]:
        with pytest.raises(EngineProtocolError, match=r"^HTTP 500 without a reason$"):
            await client.state(pod.address)


async def test_a_closed_client_asks_no_more() -> None:
    client = EngineClient(timeout_seconds=0.5)
    async with serving(FakeEngine()) as [pod]:
        await client.aclose()
        with pytest.raises(RuntimeError, match="closed"):
            await client.state(pod.address)


@pytest.mark.parametrize("digits", [30, 5_000])
async def test_a_number_of_many_digits_is_a_protocol_error(client: EngineClient, digits: int) -> None:
    body = json.dumps(FakeEngine().state()).replace('"term": 0', f'"term": {"9" * digits}')
    async with serving(FakeEngine(answer=(200, body))) as [pod]:
        with pytest.raises(EngineProtocolError, match="cannot parse the state"):
            await client.state(pod.address)


@pytest.mark.parametrize("status", [200, 409, 500])
async def test_deeply_nested_json_is_a_protocol_error(client: EngineClient, status: int) -> None:
    async with serving(FakeEngine(answer=(status, "[" * 100_000))) as [pod]:
        with pytest.raises(EngineProtocolError):
            await client.state(pod.address)


async def test_long_words_of_an_engine_are_cut_and_stay_in_one_line(client: EngineClient) -> None:
    said = "first line\n\x1b[2Jsecond line " + "x" * 5_000
    refusal = json.dumps({"error": {"reason": "Malformed", "message": said}})
    async with serving(FakeEngine(live_reason=said), FakeEngine(answer=(422, refusal))) as [
        telling,
        refusing,
    ]:
        reason = (await client.state(telling.address)).live_tuning.reason
        with pytest.raises(PushRefused) as refused:
            await client.push(refusing.address, a_push())
    assert reason is not None
    for text in (reason, str(refused.value)):
        assert "first line  [2Jsecond line xxx" in text
        assert text.isprintable()
        assert len(text) < 600


async def test_a_uid_that_cannot_be_signed_is_a_protocol_error(client: EngineClient) -> None:
    async with serving(FakeEngine()) as [pod]:
        with pytest.raises(EngineProtocolError, match="HTTP cannot represent"):
            await client.state(replace(pod.address, pod_uid="\ud800"))


@pytest.mark.parametrize("url", ["", "engine:8000", "ftp://engine", "http://[::1", "http://engine:port"])
async def test_an_address_that_is_none_is_a_protocol_error(client: EngineClient, url: str) -> None:
    with pytest.raises(EngineProtocolError, match="HTTP cannot represent"):
        await client.state(an_address(url))


async def test_the_self_test_names_the_k_that_failed(client: EngineClient) -> None:
    async with serving(FakeEngine(failed=frozenset({5}))) as [pod]:
        state = await client.state(pod.address)
    assert state.self_test is not None
    assert (state.self_test.state, state.failed_k) == ("Failed", frozenset({5}))


async def test_a_plugin_without_a_self_test_failed_none(client: EngineClient) -> None:
    async with serving(FakeEngine(probes=False)) as [pod]:
        state = await client.state(pod.address)
    assert (state.self_test, state.failed_k) == (None, frozenset())


async def test_an_engine_that_does_not_take_the_signature_is_its_own_error_and_says_what_to_do(
    client: EngineClient,
) -> None:
    async with serving(FakeEngine("sibling")) as [pod]:
        with pytest.raises(SignatureRefused, match="not signed for this pod; a pod reads a new key within"):
            await client.push(replace(pod.address, pod_uid="uid-another"), a_push())


async def test_a_plugin_that_wants_a_token_is_reported_in_the_same_way(client: EngineClient) -> None:
    answer = {"error": {"reason": "Unauthorized", "message": "the bearer token is missing or wrong"}}
    async with serving(FakeEngine(answer=(401, json.dumps(answer)))) as [pod]:
        with pytest.raises(SignatureRefused, match=r"bearer token.*check the plugin version"):
            await client.state(pod.address)


def test_no_repr_shows_the_private_key() -> None:
    secret = KEY.private_pem.splitlines()[1]
    assert secret not in repr(an_address())
    assert secret not in repr(KEY)
