"""The fast loop on a simulated engine whose text changes: K follows it, and a wrong cost model is dropped.

Times are the engine's own, of its steps, so that a busy machine makes none of them longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider_protocol.cost_model import CostModel, launch_revision
from outrider_protocol.schedule import Schedule
from tests.contract.engine import CANDIDATES, MAX_NUM_SEQS, Engine, completion_body, running_engine
from tests.contract.fast_loops import fast_loop, push_cost_model
from tests.contract.measuring import Samples, scrape, settled, sometime
from tests.contract.twin import twin_launch

pytestmark = pytest.mark.contract

STEP = {
    "fixed": 0.0071,
    "per_kv_token": 3.9e-8,
    "per_token": 2.1e-5,
    "draft_fixed": 0.0021,
    "draft_per_kv_token": 2.4e-9,
    "draft_per_token": 8.4e-7,
}
"""The shape of an H100 with a model of 8 B parameters."""
SURVIVAL = {"copy": [0.9, 0.81, 0.72, 0.63, 0.55], "prose": [0.12, 0.012, 0.001, 0.0, 0.0]}
BATCHES = (1, MAX_NUM_SEQS)
STREAMS, TOKENS = 4, 400
REACTION_SECONDS = 1.5
"""Engine time with the K of the text before."""


@pytest.fixture(scope="module")
def engine(plugin: Path, twin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A simulated engine with two classes of text."""
    description = {"name": "two texts", "step_time": STEP, "survival": SURVIVAL, "kv_tokens": 400_000}
    launch = twin_launch(plugin, twin, settings={"engine": description})
    with running_engine(plugin, tmp_path_factory.mktemp("alternating"), launch) as engine:
        yield engine


def its_cost_model(engine: Engine, *, draft_factor: float = 1.0, factor: float = 1.0) -> CostModel:
    """What the engine's steps take. The factors make it wrong, for draft tokens alone or for all."""
    state = engine.first_state

    def seconds(k: int, batch: int) -> float:
        draft = STEP["draft_fixed"] + STEP["draft_per_token"] * batch
        target = STEP["fixed"] + STEP["per_token"] * batch * (k + 1)
        return factor * (target + k * draft * draft_factor)

    return CostModel(
        revision=launch_revision(str(state["method"]), MAX_NUM_SEQS, max(CANDIDATES)),
        candidates=CANDIDATES,
        batch_sizes=BATCHES,
        step_seconds=tuple(tuple(seconds(k, batch) for k in CANDIDATES) for batch in BATCHES),
        errors=((0.02,) * len(CANDIDATES),) * len(BATCHES),
        context_tokens=0.0,
        context_slopes=tuple(STEP["per_kv_token"] + k * STEP["draft_per_kv_token"] for k in CANDIDATES),
        limits=Schedule.constant(max(CANDIDATES)),
    )


def served(engine: Engine, text: str) -> Samples:
    """What a turn of this text counts, in several requests that come at once."""
    before, prompts = scrape(engine), [f"{text} {stream}" for stream in range(STREAMS)]
    body = completion_body(TOKENS, "") | {"prompt": prompts, "vllm_xargs": {"twin_text": text}}
    with engine.client() as client:
        client.post("/v1/completions", json=body).raise_for_status()
    return settled(engine, before=before, tokens=STREAMS * TOKENS)


def seconds_without(counted: Samples, *, drafts: bool) -> float:
    """Engine time of steps that drafted nothing, or that drafted otherwise than to look."""
    by_k = counted.by("outrider:fast_loop_step_seconds_total", "k")
    idle = by_k.pop("0", 0.0)
    looks = counted.total("outrider:fast_loop_look_seconds_total")
    return idle if not drafts else sum(by_k.values()) - looks


def test_k_follows_the_text_within_seconds_and_the_cost_model_stays(engine: Engine, term: int) -> None:
    push_cost_model(engine, term, 1, its_cost_model(engine), schedule_k=3)

    def reactions() -> Iterator[tuple[float, float]]:
        """Engine time with drafts after prose came, and without after text that repeats itself came."""
        while True:
            served(engine, "copy")
            prose = served(engine, "prose")
            copy = served(engine, "copy")
            yield seconds_without(prose, drafts=True), seconds_without(copy, drafts=False)

    seen = sometime(reactions(), lambda both: max(both) < REACTION_SECONDS, tries=3)
    print("engine time with the K of the text before:", seen)
    loop = fast_loop(engine)
    assert (loop["active"], loop["inactiveReason"]) == (True, None)
    assert isinstance(loop["changes"], dict)
    assert loop["changes"]["Acceptance"] >= 2
    assert isinstance(loop["survival"], list)
    assert 0.12 < loop["survival"][0] < 0.9


def test_a_probe_is_exact_while_k_follows_the_text(engine: Engine, term: int) -> None:
    push_cost_model(engine, term, 1, its_cost_model(engine), schedule_k=3)
    probe = {
        "term": term,
        "epoch": 1,
        "id": "exact",
        "minBatchSize": STREAMS,
        "maxBatchSize": STREAMS,
        "slices": [{"numSpeculativeTokens": 1, "steps": 40}, {"numSpeculativeTokens": 5, "steps": 40}],
        "deadlineSeconds": 60,
    }
    with engine.client() as client:
        client.post("/outrider/v1/probe", json=probe).raise_for_status()
    counted = served(engine, "prose")
    state = engine.state()["probe"]
    assert isinstance(state, dict)
    assert [part["numSpeculativeTokens"] for part in state["results"]] == [1, 5]
    assert state["reason"] == "Completed"
    assert counted.disagreements() == {}
    chosen, steps = counted.total("outrider:fast_loop_steps_total"), counted.total("outrider:steps_total")
    assert 80 <= steps - chosen <= 82, "no other steps than those of the probe"


@pytest.mark.parametrize("wrong", [{"draft_factor": 0.1}, {"factor": 0.2}], ids=str)
def test_a_cost_model_of_another_engine_is_dropped(
    engine: Engine, term: int, wrong: dict[str, float]
) -> None:
    """From then on the schedule decides, also after a renewal, until another cost model comes."""
    model = its_cost_model(engine, **wrong)
    push_cost_model(engine, term, 1, model, schedule_k=1)

    def inactive() -> Iterator[object]:
        while True:
            served(engine, "copy")
            served(engine, "prose")
            yield fast_loop(engine)["inactiveReason"]

    sometime(inactive(), lambda reason: reason == "Disagrees", tries=20)
    again = push_cost_model(engine, term, 1, model, schedule_k=1)
    assert again["inactiveReason"] == "Disagrees"
    counted = served(engine, "copy")
    assert counted.total("outrider:fast_loop_steps_total") == 0
    assert set(counted.by("outrider:steps_total", "k")) == {"1"}
    assert push_cost_model(engine, term, 2, its_cost_model(engine), schedule_k=1)["active"]
