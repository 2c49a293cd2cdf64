"""The state that the engine reports."""

from __future__ import annotations

import pytest

from outrider.engine.state import EngineState, StepTime
from tests.contract.engine import CANDIDATES, MAX_NUM_SEQS, STATIC_TABLE, Engine

pytestmark = pytest.mark.contract


def test_the_static_table_is_in_force_before_any_push(engine: Engine) -> None:
    first = engine.first_state
    assert (first["source"], first["schedule"]) == ("Static", STATIC_TABLE)
    assert (first["term"], first["epoch"], first["leaseRemainingSeconds"]) == (0, 0, None)


def test_every_candidate_was_captured(engine: Engine) -> None:
    assert engine.first_state["capturedK"] == list(CANDIDATES)
    assert engine.first_state["liveTuning"] == {"possible": True, "reason": None}


def test_the_state_names_the_engine(engine: Engine) -> None:
    first = engine.first_state
    assert (first["method"], first["runner"]) == ("draft_model", "V1")
    assert (first["maxNumSeqs"], first["numSpeculativeTokens"]) == (MAX_NUM_SEQS, max(CANDIDATES))
    assert (first["engines"], first["enginesAgree"], first["problems"]) == (1, True, [])


def test_the_boot_id_stays_while_the_engine_runs(engine: Engine) -> None:
    assert len(str(engine.first_state["bootId"])) == 32
    assert engine.state()["bootId"] == engine.first_state["bootId"]


def test_an_engine_that_computes_has_a_map(following: Engine) -> None:
    sweep, cells = following.first_state["startupProfile"], step_times(following)
    assert isinstance(sweep, dict)
    assert sweep["state"] == "Measured"
    print(sweep, [cell.model_dump() for cell in cells])
    assert {cell.num_speculative_tokens for cell in cells} <= set(CANDIDATES)
    assert all(1 <= cell.batch_size <= MAX_NUM_SEQS for cell in cells)


def test_an_engine_that_was_told_not_to_has_none(engine: Engine) -> None:
    assert engine.first_state["startupProfile"] == {"state": "Skipped", "detail": "not requested"}
    assert step_times(engine) == ()


def step_times(engine: Engine) -> tuple[StepTime, ...]:
    return EngineState.model_validate(engine.first_state).step_times
