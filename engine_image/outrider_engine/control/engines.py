"""The engine cores of this pod, as an API server process reaches them. The only module that knows the
names of vLLM's engine client.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, cast

from outrider_engine.control.refusal import Refusal
from outrider_engine.control.self_test import Trial
from outrider_engine.control.startup_profile import Visit
from outrider_engine.control.state import Measurement, merge, unavailable
from outrider_engine.control.support import data_parallel_obstacle
from outrider_protocol.control_api import Reason
from outrider_protocol.engine_state import State

logger = logging.getLogger("vllm.outrider")

_LIKELIEST = 5
"""Number of tokens among which a tie is searched; vLLM returns up to 20 by default."""

DEATH_SECONDS = 1.0
"""Interval at which a waiting call checks whether the engine core still runs."""


class EngineCoreDied(Exception):
    """The engine core has ended without an answer; the process is about to end."""


class EngineCores:
    """Reached by vLLM's own utility calls, through the ``engine_core`` of its async engine client.

    With a client of another shape the control API reports it, and the server starts nevertheless.
    """

    def __init__(self, engine_client: Any) -> None:
        self._engine_client = engine_client

    def on_shutdown(self, begins: Callable[[], None]) -> None:
        """Call ``begins``, in any thread, just before vLLM ends this client.

        vLLM stops tokenizing first, so a new request fails from there on.
        """
        shutdown = getattr(self._engine_client, "shutdown", None)
        if shutdown is None:
            logger.warning("outrider: this vLLM does not announce its shutdown; requests during it will fail")
            return

        @functools.wraps(shutdown)
        def told(*args: Any, **kwargs: Any) -> Any:
            begins()
            return shutdown(*args, **kwargs)

        self._engine_client.shutdown = told

    @property
    def died(self) -> bool:
        """Whether an engine core has ended without a request to do so."""
        return bool(self._engine_client.errored)

    async def state(self) -> State:
        """The state of all engine cores; when they cannot be asked, ``liveTuning`` says why."""
        try:
            answers = cast(list[State], await self._call_all("outrider_get_state"))
            return merge(answers, data_parallel_size=self._data_parallel_size())
        except Exception as error:
            logger.exception("outrider: the engine core does not report its state")
            return unavailable(f"the engine core does not report its state: {_first_line(error)}")

    async def measurements(self) -> list[Measurement]:
        """What each engine core has counted. Raises the errors of vLLM's client."""
        return cast(list[Measurement], await self._call_all("outrider_get_measurement"))

    async def longest_step_seconds(self) -> float:
        """The maximum over all engine cores. Raises the errors of vLLM's client."""
        return max(cast(list[float], await self._call_all("outrider_longest_step_seconds")))

    def model_name(self) -> str:
        """The value of the label ``model_name`` in vLLM's own metrics."""
        return str(self._engine_client.vllm_config.model_config.served_model_name)

    async def put(self, body: dict[str, object], cost_model_fault: str | None = None) -> State:
        """Install a schedule in the only engine core.

        cost_model_fault: see `Push.cost_model_fault`.

        Raises:
            Refusal: nothing was changed.
        """
        return await self._change("outrider_put_schedule", body, cost_model_fault)

    async def probe(self, body: dict[str, object]) -> State:
        """Start a probe in the only engine core.

        Raises:
            Refusal: nothing was changed.
        """
        return await self._change("outrider_post_probe", body)

    async def measure(self, body: dict[str, object]) -> State:
        """Let the only engine core count steps, or pause the counting.

        Raises:
            Refusal: nothing was changed.
        """
        return await self._change("outrider_put_measuring", body)

    async def begin_self_test(self) -> list[Trial]:
        """The requests of the self-test for this process; none where another makes them or none can run."""
        if self._data_parallel_size() > 1:
            return []
        return cast(list[Trial], await self._call("outrider_begin_self_test"))

    async def begin_trial(self, k: int) -> None:
        """Announce the request that tests ``k``."""
        await self._call("outrider_begin_trial", k)

    async def end_trial(self, k: int, *, tokens: list[int], fault: str | None, tied: bool) -> None:
        """Report the tokens or the fault of ``k``. tied: the tokens differ at a tie of two."""
        await self._call("outrider_end_trial", k, tokens, fault, tied)

    async def end_self_test(self, fault: str | None) -> None:
        """Report the end of the self-test. fault: why it could not finish."""
        await self._call("outrider_end_self_test", fault)

    async def begin_sweep(self, seconds: float) -> list[Visit]:
        """The visits for this process; none when another one makes them, or no profile can be measured."""
        if self._data_parallel_size() > 1:
            return []
        return cast(list[Visit], await self._call("outrider_begin_sweep", seconds))

    async def begin_visit(self, batch: int, context: int) -> None:
        """Announce the requests of one visit."""
        await self._call("outrider_begin_visit", batch, context)

    async def visiting(self) -> bool:
        """Whether the visit has parts left."""
        return bool(await self._call("outrider_visiting"))

    async def end_visit(self) -> None:
        """Report that the requests of the visit have ended."""
        await self._call("outrider_end_visit")

    async def end_sweep(self, fault: str | None) -> None:
        """Report the end of the startup profile. fault: why it could not finish."""
        await self._call("outrider_end_sweep", fault)

    async def generate(self, prompt: list[int], tokens: int) -> list[int]:
        """The next ``tokens`` greedy token ids after a prompt of token ids. Stop tokens do not end it."""
        from vllm import SamplingParams

        parameters = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        request_id = f"outrider-own-{uuid.uuid4().hex}"
        generated: list[int] = []
        async for output in self._engine_client.generate(
            {"prompt_token_ids": prompt}, parameters, request_id
        ):
            generated = list(output.outputs[0].token_ids)
        return generated

    async def likeliest(self, prompt: list[int]) -> dict[int, float]:
        """Log-probabilities of the likeliest next tokens after a prompt, in nats."""
        from vllm import SamplingParams

        parameters = SamplingParams(temperature=0.0, max_tokens=1, logprobs=_LIKELIEST, detokenize=False)
        request_id = f"outrider-own-{uuid.uuid4().hex}"
        found: dict[int, float] = {}
        async for output in self._engine_client.generate(
            {"prompt_token_ids": prompt}, parameters, request_id
        ):
            if told := output.outputs[0].logprobs:
                found = {int(token): float(entry.logprob) for token, entry in told[0].items()}
        return found

    async def _change(self, method: str, *arguments: object) -> State:
        try:
            size = self._data_parallel_size()
            answer = None if size > 1 else cast(dict[str, Any], await self._call(method, *arguments))
        except Exception as error:
            logger.exception("outrider: the engine core did not accept the request")
            message = f"the engine core did not accept the request: {_first_line(error)}"
            raise Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, message) from error
        if answer is None:
            raise Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, data_parallel_obstacle(size))
        if "error" in answer:
            raise Refusal.from_wire(answer["error"])
        return cast(State, answer["state"])

    async def _call_all(self, method: str) -> list[object]:
        call_all = getattr(self._engine_client.engine_core, "call_utility_all_async", None)
        # Clients before vLLM 0.32 lack it. One engine needs no more than the ordinary call; of several,
        # which cannot be tuned anyway, the first one answers then.
        if call_all is None or self._data_parallel_size() == 1:
            return [await self._call(method)]
        return cast(list[object], await self._while_alive(call_all(method)))

    async def _call(self, method: str, *arguments: object) -> object:
        return await self._while_alive(self._engine_client.engine_core.call_utility_async(method, *arguments))

    async def _while_alive(self, call: Awaitable[object]) -> object:
        """The answer of a utility call.

        vLLM leaves such a call unanswered when the engine core dies. Its server does not end while a request
        waits, so the container would stay unready and Kubernetes would never restart it.

        Raises:
            EngineCoreDied: the engine core died before it answered.
        """
        answer = asyncio.ensure_future(call)
        try:
            while not (await asyncio.wait({answer}, timeout=DEATH_SECONDS))[0]:
                if self.died:
                    raise EngineCoreDied("it ended before it answered")
            return answer.result()
        finally:
            answer.cancel()

    def _data_parallel_size(self) -> int:
        return int(self._engine_client.vllm_config.parallel_config.data_parallel_size)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
