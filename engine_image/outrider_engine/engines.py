"""The engine cores of this pod, as an API server process reaches them."""

from __future__ import annotations

import logging
from typing import Any, cast

from outrider_engine.refusal import Reason, Refusal
from outrider_engine.state import State, merge, unavailable
from outrider_engine.support import data_parallel_obstacle

logger = logging.getLogger("vllm.outrider")


class EngineCores:
    """Reached by vLLM's own utility calls, through the ``engine_core`` of its async engine client.

    Nothing of the client is touched before the first request, so a client of another shape makes
    the control API say so and does not keep the server from starting.
    """

    def __init__(self, engine_client: Any) -> None:
        self._engine_client = engine_client

    async def state(self) -> State:
        """The state of all engine cores; when they cannot be asked, ``liveTuning`` says why."""
        try:
            answers = await self._engine_client.engine_core.call_utility_all_async("outrider_get_state")
            return merge(cast(list[State], answers), data_parallel_size=self._data_parallel_size())
        except Exception as error:
            logger.exception("outrider: the engine core does not tell its state")
            return unavailable(f"the engine core does not tell its state: {_first_line(error)}")

    async def put(self, body: dict[str, object]) -> State:
        """Install a table in the one engine core.

        Raises:
            Refusal: nothing was changed.
        """
        try:
            size = self._data_parallel_size()
            answer = None if size > 1 else await self._put(body)
        except Exception as error:
            logger.exception("outrider: the engine core did not take the table")
            message = f"the engine core did not take the table: {_first_line(error)}"
            raise Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, message) from error
        if answer is None:
            raise Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, data_parallel_obstacle(size))
        if "error" in answer:
            raise Refusal.from_wire(answer["error"])
        return cast(State, answer["state"])

    async def _put(self, body: dict[str, object]) -> dict[str, Any]:
        answer = await self._engine_client.engine_core.call_utility_async("outrider_put_schedule", body)
        return cast(dict[str, Any], answer)

    def _data_parallel_size(self) -> int:
        return int(self._engine_client.vllm_config.parallel_config.data_parallel_size)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
