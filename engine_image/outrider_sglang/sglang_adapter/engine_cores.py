"""The schedulers of this pod, as the process with the HTTP server reaches them: SGLang's tokenizer manager.

Source: SGLang 0.5.23, `sglang.srt.managers.tokenizer_manager.TokenizerManager` and
`.communicator.FanOutCommunicator`, which has one request under way and waits for every answer to it.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, TypeVar, cast

from outrider_engine.control.engine_group import EngineGroup, unpacked
from outrider_engine.control.limit_rules import OWN_REQUEST
from outrider_engine.control.verbs import Verb
from outrider_sglang.sglang_adapter.channel import METHOD, PAYLOAD, VERB
from outrider_sglang.sglang_adapter.launch_facts import several_ranks_obstacle

Payload = TypeVar("Payload")
Answer = TypeVar("Answer")

_LIKELIEST = 5
"""Number of tokens among which a tie is searched."""


class SchedulerSilent(Exception):
    """A scheduler did not run the verb: the plugin is not in its process, or failed there."""


class SGLangCores(EngineGroup):
    """Implements `outrider_engine.control.verbs.Engines` by SGLang's control requests.

    data_parallel_size: number of ranks, each of which has a scheduler.
    """

    def __init__(self, tokenizer_manager: Any, data_parallel_size: int) -> None:
        self._tokenizer_manager: Any = tokenizer_manager
        self._data_parallel_size = data_parallel_size
        self._calls: set[asyncio.Task[list[object]]] = set()

    @property
    def ending(self) -> bool:
        """Whether SGLang has got the signal to end. It completes the requests that it has."""
        return bool(self._tokenizer_manager.gracefully_exit)

    def several(self, found: int) -> str | None:
        """See `EngineGroup`."""
        size = max(found, self._data_parallel_size)
        return several_ranks_obstacle(size) if size > 1 else None

    def model_name(self) -> str:
        """See `Engines`."""
        return str(self._tokenizer_manager.served_model_name)

    async def call(self, verb: Verb[Payload, Answer], payload: Payload) -> Answer:
        """See `Engines`.

        Raises:
            SchedulerSilent: the scheduler did not run the verb.
        """
        return cast(Answer, unpacked((await self._call(verb.name, payload))[0]))

    async def call_all(self, verb: Verb[None, Answer]) -> list[Answer]:
        """See `Engines`. Raises as `call`."""
        return [cast(Answer, unpacked(packed)) for packed in await self._call(verb.name, None)]

    async def generate(self, prompt: list[int], tokens: int) -> list[int]:
        """See `Engines`."""
        output = await self._completion(prompt, max_new_tokens=tokens, ignore_eos=True)
        return [int(token) for token in output["output_ids"]]

    async def likeliest(self, prompt: list[int]) -> dict[int, float]:
        """See `Engines`."""
        output = await self._completion(prompt, likeliest=_LIKELIEST, max_new_tokens=1)
        ranked = output["meta_info"].get("output_top_logprobs") or [()]
        return {int(token): float(logprob) for logprob, token, *_ in ranked[0]}

    async def _completion(self, prompt: list[int], *, likeliest: int = 0, **sampling: Any) -> Any:
        """The whole greedy completion of a request of the plugin's own."""
        from sglang.srt.managers.io_struct import GenerateReqInput

        name = f"{OWN_REQUEST}{uuid.uuid4().hex}"
        request = GenerateReqInput(
            rid=name,
            input_ids=prompt,
            sampling_params={"temperature": 0.0, **sampling},
            return_logprob=likeliest > 0,
            top_logprobs_num=likeliest,
            log_metrics=False,
        )
        last = None
        try:
            async for output in self._tokenizer_manager.generate_request(request, None):
                last = output
        except asyncio.CancelledError:
            self._tokenizer_manager.abort_request(rid=name)
            raise
        return last

    async def _call(self, verb: str, payload: object) -> list[object]:
        """The packed answer of each scheduler.

        SGLang gives a late answer to the next question. So a call that its caller cancels continues.
        """
        call = asyncio.create_task(self._ask(verb, payload))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return await asyncio.shield(call)

    async def _ask(self, verb: str, payload: object) -> list[object]:
        from sglang.srt.managers.io_struct import DumperControlReqInput

        request = DumperControlReqInput(method=METHOD, body={VERB: verb, PAYLOAD: payload})
        outputs = await self._tokenizer_manager.dumper_control(request)
        if faults := [output.error for output in outputs if not output.success or not output.response]:
            raise SchedulerSilent(f"the scheduler has not run {verb}: {faults[0]}")
        return [output.response[0] for output in outputs]
