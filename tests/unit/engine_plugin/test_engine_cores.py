"""The engine cores as an API server process sees them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from outrider_engine.control.verbs import (
    LONGEST_STEP_SECONDS,
    PUT_MEASURING,
    PUT_SCHEDULE,
    START_PROBE,
    STATE,
    PushPayload,
)
from outrider_engine.vllm_adapter.engine_core import UTILITY_METHOD
from outrider_engine.vllm_adapter.engine_cores import EngineCores
from outrider_protocol.control_api import Reason, Refusal
from outrider_protocol.engine_state import State
from tests.unit.engine_plugin.factories import FakeScheduler, a_control, a_push, some_facts


class FakeEngineCore:
    """Answers verbs through utility calls like vLLM's client: the first engine's, or all."""

    def __init__(self, *answers: object) -> None:
        self.answers = answers
        self.calls: list[tuple[object, ...]] = []

    async def call_utility_async(self, method: str, *args: object) -> Any:
        return (await self.call_utility_all_async(method, *args))[0]

    async def call_utility_all_async(self, method: str, *args: object) -> list[Any]:
        assert method == UTILITY_METHOD
        self.calls.append(args)
        for answer in self.answers:
            if isinstance(answer, Exception) and not isinstance(answer, Refusal):
                raise answer
        return [
            {"error": answer.to_wire()} if isinstance(answer, Refusal) else {"answer": answer}
            for answer in self.answers
        ]


class SilentEngineCore:
    """Takes a call and answers it late, or never."""

    def __init__(self, *, seconds: float = 60) -> None:
        self.seconds = seconds
        self.asked = asyncio.Event()
        self.given_up = False

    async def call_utility_async(self, method: str, *args: object) -> dict[str, object]:  # noqa: ARG002
        self.asked.set()
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.given_up = True
            raise
        return {"answer": {}}


def a_client(engine_core: object, *, data_parallel_size: int = 1) -> SimpleNamespace:
    parallel = SimpleNamespace(data_parallel_size=data_parallel_size)
    return SimpleNamespace(
        engine_core=engine_core, vllm_config=SimpleNamespace(parallel_config=parallel), errored=False
    )


def cores(engine_core: FakeEngineCore, *, data_parallel_size: int = 1) -> EngineCores:
    return EngineCores(a_client(engine_core, data_parallel_size=data_parallel_size))


PUSH = PushPayload(push=a_push().to_wire(), costModelFault=None)


def a_state(**overrides: object) -> State:
    state: dict[str, Any] = {**a_control(FakeScheduler(), facts=some_facts()).state(), **overrides}
    return cast(State, state)


async def test_one_engine_tells_its_own_state() -> None:
    state = a_state()
    assert await cores(FakeEngineCore(state)).state() == state


async def test_engines_that_agree_differ_in_boot_id_and_remaining_lease_only() -> None:
    first, second = a_state(leaseRemainingSeconds=5.0), a_state(leaseRemainingSeconds=5.1)
    merged = await cores(FakeEngineCore(first, second), data_parallel_size=2).state()
    assert (merged["engines"], merged["enginesAgree"]) == (2, True)
    assert merged["bootId"] == f"{first['bootId']}+{second['bootId']}"


async def test_engines_with_different_tables_do_not_agree() -> None:
    first, second = a_state(), a_state(schedule=[{"numSpeculativeTokens": 5}])
    merged = await cores(FakeEngineCore(first, second), data_parallel_size=2).state()
    assert not merged["enginesAgree"]


async def test_data_parallel_engines_cannot_be_tuned() -> None:
    engine_core = FakeEngineCore(a_state(), a_state())
    merged = await cores(engine_core, data_parallel_size=2).state()
    assert not merged["liveTuning"]["possible"]
    assert "data parallelism" in str(merged["liveTuning"]["reason"])


async def test_one_rank_of_a_data_parallel_group_cannot_be_tuned() -> None:
    engine_core = FakeEngineCore(a_state())
    assert not (await cores(engine_core, data_parallel_size=4).state())["liveTuning"]["possible"]
    with pytest.raises(Refusal) as refused:
        await cores(engine_core, data_parallel_size=4).change(PUT_SCHEDULE, PUSH)
    assert refused.value.reason is Reason.LIVE_TUNING_IMPOSSIBLE
    assert engine_core.calls == [(STATE.name, None)]


async def test_every_engine_is_asked_for_its_longest_step() -> None:
    every = cores(FakeEngineCore(0.5, 44.0), data_parallel_size=2)
    assert await every.call_all(LONGEST_STEP_SECONDS) == [0.5, 44.0]


async def test_a_push_reaches_the_engine_as_plain_types() -> None:
    engine_core = FakeEngineCore(a_state())
    await cores(engine_core).change(PUT_SCHEDULE, PUSH)
    assert engine_core.calls == [(PUT_SCHEDULE.name, PUSH)]


async def test_a_refusal_of_the_engine_keeps_its_reason() -> None:
    refusal = Refusal(Reason.NOT_CAPTURED, "K=[4]")
    with pytest.raises(Refusal) as refused:
        await cores(FakeEngineCore(refusal)).change(PUT_SCHEDULE, PUSH)
    assert refused.value.to_wire() == refusal.to_wire()


def test_a_client_of_another_shape_is_taken_for_that_of_one_engine() -> None:
    """Its calls fail later, where the cause reaches the state."""
    sizes = [cores(FakeEngineCore(), data_parallel_size=size).is_data_parallel for size in (1, 2)]
    assert [*sizes, EngineCores(SimpleNamespace()).is_data_parallel] == [False, True, False]


@pytest.mark.parametrize("client", [None, SimpleNamespace()], ids=["no engine", "another client"])
async def test_without_a_known_client_the_state_says_why(client: object) -> None:
    state = await EngineCores(client).state()
    assert not state["liveTuning"]["possible"]
    with pytest.raises(Refusal) as refused:
        await EngineCores(client).change(PUT_SCHEDULE, PUSH)
    assert refused.value.reason is Reason.LIVE_TUNING_IMPOSSIBLE


async def test_an_engine_core_without_the_plugin_says_why() -> None:
    fault = Exception("Call to outrider_run method failed: no attribute\nsecond line")
    state = await cores(FakeEngineCore(fault)).state()
    assert (state["bootId"], state["schedule"], state["liveTuning"]["possible"]) == ("", None, False)
    assert str(state["liveTuning"]["reason"]).endswith("no attribute")


async def test_a_client_that_cannot_ask_all_asks_its_one_engine() -> None:
    asked = FakeEngineCore(a_state())
    older = SimpleNamespace(call_utility_async=asked.call_utility_async)
    assert (await cores(cast(FakeEngineCore, older)).state())["bootId"]


async def test_probes_and_measuring_reach_the_engine_by_their_own_calls() -> None:
    engine_core = FakeEngineCore(a_state())
    probe: dict[str, object] = {"id": "p1"}
    await cores(engine_core).change(START_PROBE, probe)
    await cores(engine_core).change(PUT_MEASURING, True)
    assert engine_core.calls == [(START_PROBE.name, {"id": "p1"}), (PUT_MEASURING.name, True)]


async def test_a_call_that_a_dying_engine_leaves_unanswered_is_refused() -> None:
    silent = SilentEngineCore()
    client = a_client(silent)
    push = asyncio.create_task(EngineCores(client, death_seconds=0.01).change(PUT_SCHEDULE, PUSH))
    await silent.asked.wait()
    client.errored = True
    with pytest.raises(Refusal, match="ended before it answered"):
        await push
    assert silent.given_up


async def test_an_engine_that_takes_its_time_is_waited_for() -> None:
    slow = SilentEngineCore(seconds=0.1)
    answer: Any = await EngineCores(a_client(slow), death_seconds=0.01).change(PUT_SCHEDULE, PUSH)
    assert answer == {}


async def test_no_token_of_a_failing_call_reaches_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    engine_core = FakeEngineCore(ConnectionError("gone\nAuthorization: Bearer s3cret"))
    with pytest.raises(Refusal) as refused:
        await cores(engine_core).change(PUT_SCHEDULE, PUSH)
    assert "s3cret" not in refused.value.message
    assert "did not accept the request" in caplog.text


def test_an_engine_core_that_ended_unasked_has_died() -> None:
    client = a_client(FakeEngineCore())
    assert not EngineCores(client).died
    client.errored = True
    assert EngineCores(client).died


def test_the_end_of_the_engine_client_is_told_before_it_begins() -> None:
    events: list[object] = []
    client = SimpleNamespace(shutdown=lambda timeout: events.append(timeout))
    EngineCores(client).on_shutdown(lambda: events.append("told"))
    client.shutdown(timeout=50)
    assert events == ["told", 50]


def test_an_engine_client_whose_end_is_not_seen_serves_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    EngineCores(SimpleNamespace()).on_shutdown(lambda: None)
    assert "does not announce its shutdown" in caplog.text
