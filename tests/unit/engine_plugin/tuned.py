"""An engine with a pushed schedule of one K, and what it counted."""

from __future__ import annotations

from typing import Any

from outrider_engine.control.verbs import MEASUREMENT, PUT_SCHEDULE, PushPayload
from outrider_protocol.schedule import Schedule
from tests.unit.engine_plugin.factories import a_push
from tests.unit.engine_plugin.fake_vllm import Engine, some_config


def an_engine(k: int = 3) -> Engine:
    """An engine with one K for all batch sizes."""
    engine = Engine(some_config())
    put(engine, k)
    return engine


def put(engine: Engine, k: int, **push: Any) -> None:
    """Push one K for all batch sizes. push: see `a_push`."""
    payload = PushPayload(push=a_push(table=Schedule.constant(k), **push).to_wire(), costModelFault=None)
    engine.ask(PUT_SCHEDULE, payload)


def cells(engine: Engine) -> dict[int | None, Any]:
    """What was counted, by K."""
    return {cell["numSpeculativeTokens"]: cell for cell in engine.ask(MEASUREMENT)["cells"]}
