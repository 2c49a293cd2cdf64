"""The engine cores of this pod, as an API server process reaches them: vLLM's engine client.

Source: vLLM 0.32.0, `vllm.v1.engine.async_llm.AsyncLLM` and `vllm.v1.engine.core_client.AsyncMPClient`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from outrider_engine.control.engine_group import EngineGroup, unpacked
from outrider_engine.control.limit_rules import OWN_REQUEST
from outrider_engine.control.verbs import Verb
from outrider_engine.vllm_adapter.engine_core import UTILITY_METHOD
from outrider_engine.vllm_adapter.support import data_parallel_obstacle

logger = logging.getLogger("vllm.outrider")

Payload = TypeVar("Payload")
Answer = TypeVar("Answer")

_LIKELIEST = 5
"""Number of tokens among which a tie is searched; vLLM returns up to 20 by default."""

DEATH_SECONDS = 1.0
"""Interval at which a waiting call checks whether the engine core still runs."""


class EngineCoreDied(Exception):
    """The engine core has ended without an answer; the process is about to end."""


class EngineCores(EngineGroup):
    """Implements `outrider_engine.control.verbs.Engines` by utility calls of vLLM's async engine client.

    With a client of another shape the control API reports it, and the server starts nevertheless.
    """

    def __init__(self, engine_client: Any, *, death_seconds: float = DEATH_SECONDS) -> None:
        self._engine_client = engine_client
        self._death_seconds = death_seconds

    def on_shutdown(self, begins: Callable[[], None]) -> None:
        """Call ``begins``, in any thread, just before vLLM ends this client.

        vLLM stops tokenizing first, so a new request fails from there on.
        """
        shutdown = getattr(self._engine_client, "shutdown", None)
        if shutdown is None:
            logger.warning("outrider: this vLLM does not announce its shutdown; requests during it will fail")
            return

        @functools.wraps(shutdown)
        def announced(*args: Any, **kwargs: Any) -> Any:
            begins()
            return shutdown(*args, **kwargs)

        self._engine_client.shutdown = announced

    @property
    def died(self) -> bool:
        """Whether an engine core has ended without a request to do so."""
        return bool(self._engine_client.errored)

    @property
    def data_parallel_size(self) -> int:
        """Number of data-parallel ranks, of which each is an engine core."""
        return int(self._engine_client.vllm_config.parallel_config.data_parallel_size)

    @property
    def is_data_parallel(self) -> bool:
        """Whether there are several ranks. False where the client has another shape."""
        try:
            return self.data_parallel_size > 1
        except AttributeError:
            return False

    def model_name(self) -> str:
        """See `Engines`."""
        return str(self._engine_client.vllm_config.model_config.served_model_name)

    def several(self, found: int) -> str | None:
        """See `EngineGroup`."""
        size = max(found, self.data_parallel_size)
        return data_parallel_obstacle(size) if size > 1 else None

    async def call(self, verb: Verb[Payload, Answer], payload: Payload) -> Answer:
        """See `Engines`. Also raises the errors of vLLM's client."""
        return cast(Answer, unpacked(await self._call(verb.name, payload)))

    async def call_all(self, verb: Verb[None, Answer]) -> list[Answer]:
        """See `Engines`. Also raises the errors of vLLM's client."""
        call_all = getattr(self._engine_client.engine_core, "call_utility_all_async", None)
        # Clients before vLLM 0.32 lack it. One engine needs no more than the ordinary call; of several,
        # which cannot be tuned anyway, the first one answers then.
        if call_all is None or self.data_parallel_size == 1:
            return [await self.call(verb, None)]
        answers = await self._while_alive(call_all(UTILITY_METHOD, verb.name, None))
        return [cast(Answer, unpacked(answer)) for answer in cast(list[object], answers)]

    async def generate(self, prompt: list[int], tokens: int) -> list[int]:
        """See `Engines`."""
        output = await self._completion(prompt, max_tokens=tokens, ignore_eos=True)
        return [] if output is None else list(output.token_ids)

    async def likeliest(self, prompt: list[int]) -> dict[int, float]:
        """See `Engines`."""
        output = await self._completion(prompt, max_tokens=1, logprobs=_LIKELIEST)
        if output is None or not output.logprobs:
            return {}
        return {int(token): float(entry.logprob) for token, entry in output.logprobs[0].items()}

    async def _completion(self, prompt: list[int], **parameters: Any) -> Any:
        """The whole greedy completion of a request of the plugin's own; None where vLLM gives none."""
        from vllm import SamplingParams

        greedy = SamplingParams(temperature=0.0, detokenize=False, **parameters)
        request_id = f"{OWN_REQUEST}{uuid.uuid4().hex}"
        last = None
        async for output in self._engine_client.generate({"prompt_token_ids": prompt}, greedy, request_id):
            last = output.outputs[0]
        return last

    async def _call(self, verb: str, payload: object) -> object:
        call = self._engine_client.engine_core.call_utility_async(UTILITY_METHOD, verb, payload)
        return await self._while_alive(call)

    async def _while_alive(self, call: Awaitable[object]) -> object:
        """The answer of a utility call.

        vLLM leaves such a call unanswered when the engine core dies. Its server does not end while a request
        waits, so the container would stay unready and Kubernetes would never restart it.

        Raises:
            EngineCoreDied: the engine core died before it answered.
        """
        answer = asyncio.ensure_future(call)
        try:
            while not (await asyncio.wait({answer}, timeout=self._death_seconds))[0]:
                if self.died:
                    raise EngineCoreDied("it ended before it answered")
            return answer.result()
        finally:
            answer.cancel()
