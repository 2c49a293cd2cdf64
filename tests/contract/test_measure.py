"""The plugin's sums are vLLM's own, step by step, in the right cells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.contract.engine import REQUEST_SECONDS, Engine
from tests.contract.factories import a_constant, a_push
from tests.contract.measuring import (
    assert_a_lone_request_is_in_its_cell,
    assert_every_token_is_counted,
    run_streams,
    scrape,
    settled,
    sometime,
)

pytestmark = pytest.mark.contract


def test_every_token_is_counted_while_tables_change(engine: Engine, term: int) -> None:
    assert_every_token_is_counted(engine, term, ks=(3, 0, 5, 1))


def test_ngram_drafts_are_counted_too(ngram_engine: Engine, term: int) -> None:
    before, generated = scrape(ngram_engine), 0
    for epoch, k in enumerate([4, 0, 2], start=1):
        ngram_engine.put(a_push(term=term, epoch=epoch, schedule=a_constant(k))).raise_for_status()
        generated += run_streams(ngram_engine, streams=3, requests=1, max_tokens=60)
    counted = settled(ngram_engine, before=before, tokens=generated)
    assert counted.disagreements() == {}
    assert counted.total("outrider:draft_tokens_total") > 0
    assert set(counted.by("outrider:steps_total", "k")) <= {"4", "0", "2", "mixed"}
    assert counted.by("outrider:steps_total", "k").get("mixed", 0) <= 2


def test_a_lone_request_is_in_the_cell_of_its_batch_and_k(engine: Engine, term: int) -> None:
    counted = assert_a_lone_request_is_in_its_cell(engine, term, k=3, tokens=40)
    cell = {"batch": "1", "k": "3"}
    steps = counted.total("outrider:steps_total", **cell)
    assert counted.total("outrider:scheduled_requests_total", **cell) == steps
    # The prompt's step verifies nothing; each of the others has a draft of three.
    assert counted.total("outrider:draft_tokens_total", **cell, position="0") == steps - 1


def test_one_step_after_a_change_is_mixed(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, schedule=a_constant(5))).raise_for_status()
    before = scrape(engine)
    probe = {
        "term": term,
        "epoch": 1,
        "id": "change",
        "minBatchSize": 1,
        "slices": [{"numSpeculativeTokens": 5, "steps": 6}, {"numSpeculativeTokens": 0, "steps": 100}],
        "deadlineSeconds": 60,
    }
    with engine.client() as client:
        client.post("/outrider/v1/probe", json=probe).raise_for_status()
    engine.complete(max_tokens=60)
    counted = settled(engine, before=before, tokens=60)
    steps = counted.by("outrider:steps_total", "k", batch="1")
    assert steps["mixed"] == 1
    assert steps["5"] in (6, 7)  # one more was under way when the sixth was counted
    assert steps["0"] > 10


def test_engine_time_is_busy_time(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, schedule=a_constant(2))).raise_for_status()

    def shares() -> Iterator[float]:
        """Of the time that a lone request lived, what the steps took."""
        while True:
            before = scrape(engine)
            engine.complete(max_tokens=64)
            counted = settled(engine, before=before, tokens=64)
            lived = counted.total("vllm:request_inference_time_seconds_sum")
            yield counted.total("outrider:step_seconds_total") / lived

    sometime(shares(), lambda share: 0.8 < share < 1.1)


def test_the_hooks_cost_little(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, schedule=a_constant(2))).raise_for_status()

    def costs() -> Iterator[tuple[float, float]]:
        """Share of the step time, and microseconds per step."""
        while True:
            before = scrape(engine)
            tokens = run_streams(engine, streams=16, requests=1, max_tokens=48)
            counted = settled(engine, before=before, tokens=tokens)
            seconds = counted.total("outrider:hook_seconds_total")
            yield (
                seconds / counted.total("outrider:step_seconds_total"),
                1e6 * seconds / counted.total("outrider:steps_total"),
            )

    tries = sometime(costs(), lambda cost: cost[0] < 0.01)
    report = Path("out/contract/hook-cost.json")
    report.parent.mkdir(parents=True, exist_ok=True)
    seen = [{"share_of_step": share, "microseconds_per_step": cost} for share, cost in tries]
    report.write_text(json.dumps({"tries": seen}) + "\n")


def test_the_sums_can_be_read_without_prometheus(engine: Engine) -> None:
    with engine.client() as client:
        answer = client.get("/outrider/v1/counters")
    (found,) = answer.json()["engines"]
    assert sum(cell["emittedTokens"] for cell in found["cells"]) == scrape(engine).total(
        "outrider:emitted_tokens_total"
    )
    assert httpx.get(f"{engine.url}/outrider/v1/counters", timeout=REQUEST_SECONDS).status_code == 401


def test_counting_can_be_paused_and_goes_on_from_its_sums(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, schedule=a_constant(1))).raise_for_status()
    try:
        with engine.client() as client:
            client.put("/outrider/v1/measuring", json={"enabled": False}).raise_for_status()
        before = scrape(engine)
        engine.complete(max_tokens=16)
        paused = settled(engine, before=before, tokens=16)
        assert paused.total("outrider:steps_total") == 0
    finally:
        with engine.client() as client:
            client.put("/outrider/v1/measuring", json={"enabled": True}).raise_for_status()
    before = scrape(engine)
    engine.complete(max_tokens=16)
    assert settled(engine, before=before, tokens=16).disagreements() == {}
