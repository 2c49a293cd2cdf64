"""The schedulers as the process with SGLang's HTTP server sees them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from outrider_engine.control.limit_rules import OWN_REQUEST
from outrider_engine.control.verbs import (
    LONGEST_STEP_SECONDS,
    PUT_MEASURING,
    PUT_SCHEDULE,
    STATE,
    PushPayload,
)
from outrider_protocol.control_api import Reason, Refusal
from outrider_sglang.sglang_adapter.channel import METHOD, PAYLOAD, VERB
from outrider_sglang.sglang_adapter.engine_cores import SGLangCores
from tests.unit.engine_plugin.factories import a_push
from tests.unit.sglang_plugin.engine import Engine
from tests.unit.sglang_plugin.fake_sglang import DumperOutput, DumperRequest


class TokenizerManager:
    """Sends control requests to an engine, or answers them itself. held: until it is set, nothing answers."""

    served_model_name = "tiny"
    gracefully_exit = False

    def __init__(self, engine: Engine | None = None, *, outputs: Sequence[DumperOutput] = ()) -> None:
        self.engine, self.outputs = engine, outputs
        self.requests: list[Any] = []
        self.aborted: list[str] = []
        self.held = asyncio.Event()
        self.held.set()
        self.chunks: list[Any] = []

    async def dumper_control(self, request: DumperRequest) -> Sequence[Any]:
        self.requests.append(request)
        await self.held.wait()
        return self.outputs or [self.engine.send(request.method, request.body)]  # type: ignore[union-attr]

    async def generate_request(self, request: Any, http_request: None) -> AsyncIterator[Any]:  # noqa: ARG002
        self.requests.append(request)
        await self.held.wait()
        for chunk in self.chunks:
            yield chunk

    def abort_request(self, rid: str) -> None:
        self.aborted.append(rid)


async def test_a_verb_reaches_the_scheduler_and_its_answer_comes_back() -> None:
    manager = TokenizerManager(Engine())
    cores = SGLangCores(manager, 1)
    assert (await cores.state())["capturedK"] == [0, 1, 3]
    assert (await cores.change(PUT_MEASURING, payload=False))["measuring"] is False
    assert manager.requests[0] == DumperRequest(METHOD, {VERB: STATE.name, PAYLOAD: None})


async def test_a_refusal_of_the_scheduler_is_a_refusal_here() -> None:
    cores = SGLangCores(TokenizerManager(Engine(None)), 1)
    push = PushPayload(push=a_push().to_wire(), costModelFault=None)
    with pytest.raises(Refusal) as refused:
        await cores.change(PUT_SCHEDULE, push)
    assert refused.value.reason is Reason.LIVE_TUNING_IMPOSSIBLE


async def test_without_the_plugin_in_the_scheduler_the_state_says_so() -> None:
    manager = TokenizerManager(outputs=[DumperOutput(False, [], "no outrider")])
    state = await SGLangCores(manager, 1).state()
    assert not state["liveTuning"]["possible"]
    assert str(state["liveTuning"]["reason"]).endswith("the scheduler has not run state: no outrider")


async def test_each_data_parallel_rank_answers_and_none_is_tuned() -> None:
    packed = {"answer": 0.5}
    cores = SGLangCores(TokenizerManager(outputs=[DumperOutput(True, [packed])] * 2), 2)
    assert await cores.call_all(LONGEST_STEP_SECONDS) == [0.5, 0.5]
    with pytest.raises(Refusal) as refused:
        await cores.change(PUT_MEASURING, payload=True)
    assert "use replicas" in refused.value.message


async def test_a_cancelled_question_still_gets_its_answer_so_that_the_next_gets_its_own() -> None:
    manager = TokenizerManager(Engine())
    cores = SGLangCores(manager, 1)
    manager.held.clear()
    asked = asyncio.create_task(cores.call_all(STATE))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    (waiting,) = cores._calls
    manager.held.set()
    assert (await waiting)[0]


async def test_a_request_of_the_plugin_is_greedy_and_carries_its_mark() -> None:
    manager = TokenizerManager()
    manager.chunks = [{"output_ids": [5, 6]}, {"output_ids": [5, 6, 7]}]
    assert await SGLangCores(manager, 1).generate([1, 2], 3) == [5, 6, 7]
    (request,) = manager.requests
    assert request.rid.startswith(OWN_REQUEST)
    assert request.sampling_params == {"temperature": 0.0, "max_new_tokens": 3, "ignore_eos": True}


async def test_the_likeliest_tokens_come_with_their_logarithms() -> None:
    manager = TokenizerManager()
    manager.chunks = [{"meta_info": {"output_top_logprobs": [[(-0.5, 11, None), (-1.5, 12, None)]]}}]
    assert await SGLangCores(manager, 1).likeliest([1]) == {11: -0.5, 12: -1.5}


async def test_a_request_that_is_cancelled_is_aborted_in_the_engine() -> None:
    manager = TokenizerManager()
    manager.held.clear()
    asked = asyncio.create_task(SGLangCores(manager, 1).generate([1], 3))
    while not manager.requests:
        await asyncio.sleep(0)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert manager.aborted == [manager.requests[0].rid]


def test_the_signal_to_end_is_known() -> None:
    manager = SimpleNamespace(gracefully_exit=True, served_model_name="tiny")
    cores = SGLangCores(manager, 1)
    assert (cores.ending, cores.model_name()) == (True, "tiny")
