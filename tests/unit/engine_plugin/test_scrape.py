"""The plugin's metrics on the engine's own page."""

from __future__ import annotations

import asyncio
import gzip
from typing import cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from outrider_engine.control.state import Measurement
from outrider_engine.http.exposition import render, render_silence
from outrider_engine.http.metrics_middleware import MetricsMiddleware
from outrider_engine.http.scrape import Scrape
from outrider_engine.http.server import Message, Scope, Send
from outrider_protocol.control_api import Refusal, Slice
from outrider_protocol.schedule import Schedule
from tests.unit.engine_plugin.factories import (
    EnginesByVerb,
    FakeScheduler,
    a_control,
    a_cost_model,
    a_probe,
    a_push,
    a_table,
)

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


def a_measurement() -> Measurement:
    """An engine that ran one step of two requests at K=2, and one mixed one."""
    control = a_control(FakeScheduler())
    control.put(a_push(term=7, epoch=3, table=a_table((3, 2), above=0), lease_seconds=30))
    meter = control.meter
    assert meter is not None
    for key, k, drafted in (("first", 2, (2, 2)), ("second", 0, (2, 1))):
        meter.scheduled(
            key,
            request_ids={"a": 3, "b": 3},
            gone=(),
            num_speculative_tokens=k,
            prefill_tokens=4,
            context_tokens=200,
            began=10.0,
        )
        meter.finished(key, emitted_tokens=5, drafted=drafted, accepted=(2, 0), work_left=False, ended=10.5)
    return control.measurement()


def values_of(text: bytes) -> Values:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def value(values: Values, name: str, **labels: str) -> float:
    (found,) = [
        number for (have, having), number in values.items() if have == name and labels.items() <= having
    ]
    return found


@pytest.fixture
def values() -> Values:
    return values_of(render([a_measurement()], model_name="tiny"))


def test_sums_are_told_per_batch_and_k(values: Values) -> None:
    cell = {"model_name": "tiny", "engine": "0", "batch": "2-3", "k": "2"}
    assert value(values, "outrider:steps_total", **cell) == 1
    assert value(values, "outrider:step_seconds_total", **cell) == 0.5
    assert value(values, "outrider:scheduled_requests_total", **cell) == 2
    assert value(values, "outrider:emitted_tokens_total", **cell) == 5
    assert value(values, "outrider:prefill_tokens_total", **cell) == 4
    assert value(values, "outrider:context_tokens_total", **cell) == 200
    assert value(values, "outrider:draft_tokens_total", **cell, position="1") == 2
    assert value(values, "outrider:accepted_tokens_total", **cell, position="1") == 0


def test_a_step_that_verifies_another_k_than_it_drafts_is_mixed(values: Values) -> None:
    assert value(values, "outrider:steps_total", k="mixed") == 1


def test_the_gauges_tell_what_is_in_force(values: Values) -> None:
    assert value(values, "outrider:lease_remaining_seconds") == 30
    assert (value(values, "outrider:term"), value(values, "outrider:epoch")) == (7, 3)
    assert value(values, "outrider:live_tuning") == 1
    assert value(values, "outrider:probe_running") == 0
    assert value(values, "outrider:hook_failures_total") == 0
    assert value(values, "outrider:longest_step_seconds") > 0
    table = {
        batch: value(values, "outrider:num_speculative_tokens", batch=batch) for batch in ("1", "2-3", "13+")
    }
    assert table == {"1": 2, "2-3": 2, "13+": 0}


def test_a_running_probe_shows_and_the_table_beneath_it_stays() -> None:
    control = a_control(FakeScheduler())
    control.put(a_push(table=Schedule.constant(3)))
    control.start_probe(a_probe(Slice(1, steps=9), low=1, high=1))
    values = values_of(render([control.measurement()], model_name="tiny"))
    assert value(values, "outrider:probe_running") == 1
    assert value(values, "outrider:num_speculative_tokens", batch="1") == 3


def test_the_fast_loop_tells_what_it_chose_and_how_often_it_changed() -> None:
    control = a_control(FakeScheduler())
    control.put(a_push(cost_model=a_cost_model()))
    wire = control.measurement()
    wire["state"]["fastLoop"] |= {
        "steps": [{"numSpeculativeTokens": 2, "steps": 4, "seconds": 0.5}],
        "changes": {"Acceptance": 3},
        "looks": 7,
        "lookSeconds": 0.25,
        "hookSeconds": 0.125,
    }
    values = values_of(render([wire], model_name="tiny"))
    assert value(values, "outrider:fast_loop_active") == 1
    assert value(values, "outrider:fast_loop_steps_total", k="2") == 4
    assert value(values, "outrider:fast_loop_step_seconds_total", k="2") == 0.5
    assert value(values, "outrider:fast_loop_changes_total", reason="Acceptance") == 3
    assert value(values, "outrider:fast_loop_looks_total") == 7
    assert value(values, "outrider:fast_loop_look_seconds_total") == 0.25
    assert value(values, "outrider:fast_loop_hook_seconds_total") == 0.125


def test_an_engine_without_steps_or_table_tells_its_gauges() -> None:
    control = a_control(FakeScheduler(lookup=None), counted=False)
    values = values_of(render([control.measurement()], model_name="tiny"))
    assert value(values, "outrider:live_tuning") == 0
    assert not [name for name, _ in values if name == "outrider:steps_total"]


def test_engines_of_one_server_are_told_apart() -> None:
    values = values_of(render([a_measurement(), a_measurement()], model_name="tiny"))
    assert value(values, "outrider:term", engine="1") == 7


def test_the_silence_of_a_core_is_told_where_its_sums_are_missing() -> None:
    assert value(values_of(render_silence(7.0)), "outrider:core_silent_seconds") == 7


class FakeEngines(EnginesByVerb):
    """Engine cores that answer when the test says so."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer = asyncio.Event()
        self.fault: Exception | None = None

    async def measurement(self, _: None) -> Measurement:
        self.asked += 1
        await self.answer.wait()
        if self.fault:
            raise self.fault
        return a_measurement()


async def test_scrapes_at_the_same_time_share_one_question() -> None:
    engines = FakeEngines()
    scrape = Scrape(engines)
    waiting = [asyncio.create_task(scrape.text()) for _ in range(5)]
    await asyncio.sleep(0)
    engines.answer.set()
    assert len({await text for text in waiting}) == 1
    assert engines.asked == 1


async def test_each_later_scrape_asks_anew() -> None:
    engines = FakeEngines()
    engines.answer.set()
    scrape = Scrape(engines)
    assert await scrape.text()
    assert await scrape.text()
    assert engines.asked == 2


async def test_an_engine_that_does_not_answer_in_time_leaves_the_metrics_out() -> None:
    engines = FakeEngines()
    scrape = Scrape(engines, seconds=0.01)
    assert await scrape.text() == b""
    with pytest.raises(Refusal, match="TimeoutError"):
        await scrape.measurements()
    assert engines.asked == 1
    engines.answer.set()
    assert b"outrider:steps_total" in await scrape.text()


async def test_a_fault_leaves_the_metrics_out_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    engines = FakeEngines()
    engines.answer.set()
    engines.fault = ConnectionError("gone")
    scrape = Scrape(engines)
    assert [await scrape.text(), await scrape.text()] == [b"", b""]
    assert caplog.text.count("the metrics are incomplete") == 1


class Page:
    """An ASGI application that answers with a page, compressed when it may be."""

    def __init__(self, body: bytes = b"vllm:up 1\n", *, kind: bytes = b"text/plain; version=0.0.4") -> None:
        self.body, self.kind = body, kind

    async def __call__(self, scope: Scope, _: object, send: Send) -> None:
        zipped = any(name == b"accept-encoding" and b"gzip" in value for name, value in scope["headers"])
        body = gzip.compress(self.body) if zipped else self.body
        headers = [(b"content-type", self.kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for index in range(len(body)):
            await send({"type": "http.response.body", "body": body[index : index + 1], "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def answer(
    page: Page, *, path: str = "/metrics", method: str = "GET", root_path: str = "", text: bytes = b"ours 1\n"
) -> tuple[dict[bytes, bytes], bytes]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request"}

    async def added() -> bytes:
        return text

    headers = [(b"accept-encoding", b"gzip"), (b"host", b"here")]
    scope = {"type": "http", "method": method, "path": path, "root_path": root_path, "headers": headers}
    await MetricsMiddleware(page, text=added)(scope, receive, send)
    start = cast(dict[str, list[tuple[bytes, bytes]]], sent[0])
    return dict(start["headers"]), b"".join(message.get("body", b"") for message in sent[1:])


@pytest.mark.parametrize(
    ("path", "root_path"), [("/metrics", ""), ("/metrics/", ""), ("/llm/metrics", "/llm")]
)
async def test_the_metrics_follow_those_of_vllm(path: str, root_path: str) -> None:
    headers, body = await answer(Page(), path=path, root_path=root_path)
    assert body == b"vllm:up 1\nours 1\n"
    assert headers[b"content-length"] == str(len(body)).encode()


async def test_without_metrics_the_page_is_as_it_was() -> None:
    _, body = await answer(Page(), text=b"")
    assert body == b"vllm:up 1\n"


async def test_a_page_of_another_kind_is_as_it_was() -> None:
    headers, body = await answer(Page(kind=b"application/openmetrics-text"))
    assert body == b"vllm:up 1\n"
    assert headers[b"content-length"] == str(len(body)).encode()


@pytest.mark.parametrize(
    ("path", "method"), [("/v1/completions", "GET"), ("/metrics", "POST"), ("/metricsx", "GET")]
)
async def test_other_requests_pass_untouched(path: str, method: str) -> None:
    _, body = await answer(Page(), path=path, method=method)
    assert gzip.decompress(body) == b"vllm:up 1\n"
