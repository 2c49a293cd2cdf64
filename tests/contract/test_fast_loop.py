"""The fast loop in real vLLM: it chooses K of each step, every count is vLLM's, and no token changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.answers import Answer
from tests.contract.engine import CANDIDATES, Engine
from tests.contract.equality import STEPS, assert_no_token_changes
from tests.contract.factories import a_constant, a_push
from tests.contract.fast_loops import CHEAP, DEAR, a_cost_model, fast_loop, push_cost_model
from tests.contract.gaps import CAUGHT_UP, SKIPPED
from tests.contract.measuring import run_streams, scrape, settled, sometime

pytestmark = pytest.mark.contract


def test_it_chooses_k_whatever_the_schedule_says(engine: Engine, term: int) -> None:
    model = a_cost_model(engine, (3,), per_draft=CHEAP)
    assert push_cost_model(engine, term, 1, model)["active"]
    before = scrape(engine)
    tokens = run_streams(engine, streams=5, requests=2, max_tokens=40, name="chosen")
    counted = settled(engine, before=before, tokens=tokens)
    assert counted.disagreements() == {}
    assert set(counted.by(STEPS, "k")) == {"3"}
    assert counted.total(STEPS) == counted.total("outrider:steps_total")
    assert counted.total("outrider:fast_loop_step_seconds_total") == pytest.approx(
        counted.total("outrider:step_seconds_total")
    )
    state = engine.state()
    assert (state["schedule"], state["problems"]) == (a_constant(0), [])


def test_at_k_0_it_looks_and_the_drafter_catches_up_before_each_look(engine: Engine, term: int) -> None:
    """A draft token takes as long as a step, so it stays at K=0."""
    push_cost_model(engine, term, 1, a_cost_model(engine, (0, 2), per_draft=DEAR))
    run_streams(engine, streams=4, requests=1, max_tokens=40, name="settle")
    before, looks = scrape(engine), fast_loop(engine)["looks"]
    tokens = run_streams(engine, streams=4, requests=1, max_tokens=400, name="looks")
    counted = settled(engine, before=before, tokens=tokens)
    loop = fast_loop(engine)
    assert counted.disagreements() == {}
    assert loop["numSpeculativeTokens"] == 0
    looked = int(str(loop["looks"])) - int(str(looks))
    assert looked > 0
    assert counted.by(STEPS, "k") == {"0": counted.total(STEPS) - looked, "2": looked}
    assert counted.total("outrider:fast_loop_looks_total") == looked
    assert counted.total("outrider:draft_tokens_total", position="0") > 0
    assert counted.total(SKIPPED) > looked
    assert counted.total(CAUGHT_UP) > looked
    assert counted.total("outrider:fast_loop_look_seconds_total") > 0


def test_its_cost_model_lives_as_long_as_the_lease(engine: Engine, term: int) -> None:
    model = a_cost_model(engine, (3,), per_draft=CHEAP)
    body = a_push(term=term, schedule=a_constant(1), lease_seconds=0.5) | {"costModel": model.to_wire()}
    engine.put(body).raise_for_status()

    def inactive() -> Iterator[object]:
        while True:
            yield fast_loop(engine)["inactiveReason"]

    sometime(inactive(), lambda reason: reason == "LeaseLapsed", tries=10_000)
    assert engine.state()["source"] == "Fallback"


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"revision": "eagle3/1/1"}, "launch eagle3/1/1"),
        ({"stepSeconds": [[float("inf")] * 2] * 2}, "stepSeconds"),
        ({"batchSizes": "x" * 2000}, "batchSizes"),
        ({"candidates": [0, 4]}, "K=[4]"),
    ],
)
def test_a_cost_model_that_cannot_be_used_leaves_the_pushed_schedule_in_force(
    engine: Engine, term: int, changes: dict[str, object], detail: str
) -> None:
    model = a_cost_model(engine, (0, 3), per_draft=CHEAP).to_wire() | changes
    content = json.dumps(a_push(term=term, schedule=a_constant(2)) | {"costModel": model}).encode()
    with engine.client() as client:
        answer = client.put("/outrider/v1/schedule", content=content)
    answer.raise_for_status()
    state = answer.json()
    assert (state["schedule"], state["source"]) == (a_constant(2), "Pushed")
    loop = state["fastLoop"]
    assert (loop["active"], loop["inactiveReason"]) == (False, "Refused")
    assert detail in loop["inactiveDetail"]


def test_one_that_exceeds_the_size_of_a_body_changes_nothing(engine: Engine, term: int) -> None:
    engine.put(a_push(term=term, epoch=1)).raise_for_status()
    model = a_cost_model(engine, (0, 3), per_draft=CHEAP).to_wire() | {"revision": "x" * 70_000}
    answer = engine.put(a_push(term=term, epoch=2) | {"costModel": model})
    assert answer.json()["error"]["reason"] == "TooLarge"
    assert engine.state()["epoch"] == 1


def test_with_a_draft_model_it_changes_no_token(engine: Engine, term: int, plain: list[Answer]) -> None:
    assert_no_token_changes(engine, term, plain, CANDIDATES, "draft_model")


def test_with_ngram_it_changes_no_token(ngram_engine: Engine, term: int, plain: list[Answer]) -> None:
    assert_no_token_changes(ngram_engine, term, plain, (0, 2, 4), "ngram")


def test_it_costs_little(engine: Engine, term: int) -> None:
    push_cost_model(engine, term, 1, a_cost_model(engine, CANDIDATES, per_draft=1e-4))

    def costs() -> Iterator[tuple[float, float]]:
        """Ratio of the step time, and microseconds per step, with as many requests as the engine takes."""
        while True:
            before = scrape(engine)
            tokens = run_streams(engine, streams=16, requests=1, max_tokens=48)
            counted = settled(engine, before=before, tokens=tokens)
            seconds = counted.total("outrider:fast_loop_hook_seconds_total")
            yield seconds / counted.total("outrider:step_seconds_total"), 1e6 * seconds / counted.total(STEPS)

    tries = sometime(costs(), lambda cost: cost[0] < 0.01)
    report = Path("out/contract/fast-loop-cost.json")
    report.parent.mkdir(parents=True, exist_ok=True)
    seen = [{"ratio_of_step": ratio, "microseconds_per_step": cost} for ratio, cost in tries]
    report.write_text(json.dumps({"tries": seen}) + "\n")
    print(seen)
