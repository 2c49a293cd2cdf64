"""A round of the loop is a span, and so is each model's tick in it, with what was decided and why."""

from __future__ import annotations

import pytest
from opentelemetry.trace import StatusCode

from outrider.controller.tune import model_tuner
from outrider.engine.client import EngineClient
from outrider.telemetry.source import SourceUnreachable
from outrider.tuning.decision import Decision
from tests.unit.controller.spans import Spans
from tests.unit.engine.fake_engine import FakeEngine, serving
from tests.unit.tuning_loop.factories import World, a_model, step


async def test_a_round_holds_the_measuring_and_a_tick_of_each_model_with_its_decision(
    engines: EngineClient,
) -> None:
    spans = Spans()
    async with serving(FakeEngine()) as pods:
        with spans.traced() as traces:
            world = World([a_model(*pods)], traces=traces)
            with world.loop(engines) as loop:
                await step(loop)

    (whole,), (measure,), (tick,) = (spans.named(name) for name in ("round", "measure", "tick"))
    assert whole.context is not None
    for part in (measure, tick):
        assert part.parent is not None
        assert part.parent.span_id == whole.context.span_id
    assert dict(tick.attributes or {}) == {
        "k8s.namespace.name": "default",
        "outrider.model": "m",
        "outrider.mode": "Auto",
        "outrider.tuning": "Tuning",
        "outrider.table": "*:3",
        "outrider.decision": "Hold",
        "outrider.reason": "MetricsGap",
        "outrider.changed": False,
        "outrider.pushes_confirmed": 1,
        "outrider.pushes_failed": 0,
    }


async def test_a_tick_without_metrics_says_what_they_lack(engines: EngineClient) -> None:
    spans = Spans()
    with spans.traced() as traces:
        world = World([a_model()], traces=traces, outage=SourceUnreachable("refused", action="Look."))
        with world.loop(engines) as loop:
            await step(loop)

    (measure,), (tick,) = (spans.named(name) for name in ("measure", "tick"))
    assert (measure.status.status_code, measure.status.description) == (StatusCode.ERROR, "SourceUnreachable")
    assert (tick.attributes or {})["outrider.metrics"] == "PrometheusUnreachable"


async def test_a_tick_that_fails_is_told_by_the_type_of_its_error(
    engines: EngineClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> Decision:
        raise LookupError("words of somebody else")

    monkeypatch.setattr(model_tuner, "decide", fail)
    spans = Spans()
    with spans.traced() as traces:
        world = World([a_model()], traces=traces)
        with world.loop(engines) as loop:
            await step(loop)

    (tick,) = spans.named("tick")
    assert (tick.status.status_code, tick.status.description) == (StatusCode.ERROR, "LookupError")
    assert "words of somebody else" not in tick.to_json()
