"""The engine cores of a pod as one: their state, and a change of the only one that can be tuned."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import Any, TypeVar, cast

from outrider_engine.control.state import merge, unavailable
from outrider_engine.control.verbs import STATE, Verb
from outrider_protocol.control_api import Reason, Refusal
from outrider_protocol.engine_state import State

logger = logging.getLogger("vllm.outrider")

Payload = TypeVar("Payload")
Answer = TypeVar("Answer")


class EngineGroup(ABC):
    """What every implementation of `outrider_engine.control.verbs.Engines` answers alike."""

    @abstractmethod
    def several(self, found: int) -> str | None:
        """Why engine cores of this number cannot be tuned; None where it is one.

        found: how many answered; the engine may know of more.
        """

    @abstractmethod
    async def call(self, verb: Verb[Payload, Answer], payload: Payload) -> Answer:
        """See `Engines`. Also raises the errors of the engine's own client."""

    @abstractmethod
    async def call_all(self, verb: Verb[None, Answer]) -> list[Answer]:
        """See `Engines`. Also raises the errors of the engine's own client."""

    async def state(self) -> State:
        """The state of all engine cores; when they cannot be asked, ``liveTuning`` says why."""
        try:
            states = await self.call_all(STATE)
            return merge(states, obstacle=self.several(len(states)))
        except Exception as error:
            logger.exception("outrider: the engine core does not report its state")
            return unavailable(f"the engine core does not report its state: {_first_line(error)}")

    async def change(self, verb: Verb[Payload, State], payload: Payload) -> State:
        """Have the only engine core run a verb that changes it.

        Raises:
            Refusal: nothing was changed; also where the core cannot be reached.
        """
        try:
            if (why := self.several(1)) is None:
                return await self.call(verb, payload)
        except Refusal:
            raise
        except Exception as error:
            logger.exception("outrider: the engine core did not accept the request")
            message = f"the engine core did not accept the request: {_first_line(error)}"
            raise Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, message) from error
        raise Refusal(Reason.LIVE_TUNING_IMPOSSIBLE, why)


def unpacked(answer: object) -> object:
    """What `outrider_engine.control.verbs.answer` packed.

    Raises:
        Refusal: nothing was changed.
    """
    packed = cast(dict[str, Any], answer)
    if "error" in packed:
        raise Refusal.from_wire(packed["error"])
    return packed["answer"]


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
