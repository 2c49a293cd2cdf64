"""Before an engine serves it has measured its step times: on a stand-in, whose step times are known.
`test_state` has engines that compute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from outrider.engine.state import EngineState, StepTime
from outrider.tuning.cost_model import next_cost_model
from outrider.tuning.estimate.step_time_profile import MapCell, StepTimeProfile
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from outrider_protocol.schedule import Schedule
from tests.contract.engine import CANDIDATES, MAX_NUM_SEQS, STATIC_TABLE, Engine, running_engine
from tests.contract.fast_loops import push_cost_model
from tests.contract.measuring import run_streams, scrape, settled
from tests.contract.twin import pace, twin_launch

pytestmark = pytest.mark.contract

SIZES = {1, 2, 4, 8, 16}
TIME = {
    "fixed": 0.02,
    "per_kv_token": 1e-6,
    "per_token": 5e-5,
    "draft_fixed": 0.003,
    "draft_per_token": 2e-5,
}
"""Seconds: slow enough that a busy machine is late by little, and different at every place of the map."""
LARGEST_ERROR = 0.03
PATIENT: dict[str, Any] = {
    "OUTRIDER_SWEEP": "1",
    "OUTRIDER_SWEEP_SHARE": "10",
    "OUTRIDER_SWEEP_SECONDS": "300",
}
"""So that every place is visited, however short the start was."""


@pytest.fixture(scope="module")
def swept(plugin: Path, twin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A stand-in of known step times."""
    told = {
        "engine": {"step_time": TIME, "survival": {"some": [0.7, 0.5, 0.3, 0.2, 0.1]}, "kv_tokens": 20_000}
    }
    launch = twin_launch(plugin, twin, settings=told, **PATIENT)
    with running_engine(plugin, tmp_path_factory.mktemp("swept"), launch) as engine:
        yield engine


def step_times(engine: Engine) -> tuple[StepTime, ...]:
    return EngineState.model_validate(engine.first_state).step_times


def true_seconds(cell: StepTime) -> float:
    """The arithmetic of a stand-in, for a step that drafts K and verifies as many."""
    batch, k = cell.batch_size, cell.num_speculative_tokens
    cached = batch * cell.context_tokens
    target = TIME["fixed"] + TIME["per_kv_token"] * cached + TIME["per_token"] * batch * (k + 1)
    return target + k * (TIME["draft_fixed"] + TIME["draft_per_token"] * batch)


def test_the_map_of_a_stand_in_is_its_own_arithmetic(swept: Engine) -> None:
    cells, late = step_times(swept), pace(swept).late
    errors = {
        (c.batch_size, c.num_speculative_tokens, round(c.context_tokens)): c.step_seconds / true_seconds(c)
        - 1
        for c in cells
    }
    print(
        f"late by {late:.2%}",
        swept.first_state["startupProfile"],
        {cell: f"{error:+.2%}" for cell, error in errors.items()},
    )
    assert {(c.batch_size, c.num_speculative_tokens) for c in cells} == {
        (b, k) for b in SIZES for k in CANDIDATES
    }
    # By its own account the stand-in was so much late on a busy machine, and so is the map.
    assert fmean(map(abs, errors.values())) <= LARGEST_ERROR + late


def test_it_has_two_contexts(swept: Engine) -> None:
    contexts = sorted(cell.context_tokens for cell in step_times(swept) if cell.batch_size == 1)
    assert contexts[-1] > 4 * contexts[0]


def test_its_requests_are_no_traffic(swept: Engine) -> None:
    """The self-test is counted; the sweep would be a hundred times as much."""
    assert scrape(swept).total("outrider:emitted_tokens_total") < 500
    assert scrape(swept).by("outrider:steps_total", "batch").keys() == {"1"}


def test_metrics_tell_how_large_it_is(swept: Engine) -> None:
    assert swept.counter("outrider:startup_profile_cells") == len(step_times(swept))


def test_nothing_of_it_is_left_when_the_engine_serves(swept: Engine) -> None:
    assert (swept.first_state["schedule"], swept.first_state["source"]) == (STATIC_TABLE, "Static")
    assert (swept.counter("vllm:num_requests_running"), swept.counter("vllm:num_requests_waiting")) == (0, 0)


def test_its_map_chooses_k_from_the_first_request_on(swept: Engine, term: int) -> None:
    """The operator makes the cost model of the first push from the map, before any step of a request."""
    state = EngineState.model_validate(swept.first_state)
    cells = tuple(
        MapCell(c.batch_size, c.num_speculative_tokens, c.context_tokens, c.step_seconds, c.error)
        for c in state.step_times
    )
    policy = Policy(CANDIDATES, MAX_NUM_SEQS)
    before = TunerState.start(Schedule.constant(max(CANDIDATES)), policy)
    tick = TickContext([], before, policy=policy, now=0.0, step_times=StepTimeProfile(cells))
    decision = decide(tick)
    model = next_cost_model(None, decision)
    assert model is not None
    assert state.fast_loop is not None
    assert state.fast_loop.revision is not None
    model = replace(model, revision=state.fast_loop.revision)
    assert push_cost_model(swept, term, 1, model, schedule_k=max(CANDIDATES))["active"]
    unused = scrape(swept)
    tokens = run_streams(swept, streams=4, requests=1, max_tokens=60, name="first")
    counted = settled(swept, before=unused, tokens=tokens)
    assert counted.total("outrider:fast_loop_steps_total") == counted.total("outrider:steps_total") > 0
