"""Before an engine serves it has tried every candidate."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract import quick_start, stale_state
from tests.contract.engine import CANDIDATES, STATIC_TABLE, Engine, Launch, running_engine

pytestmark = pytest.mark.contract


def test_every_candidate_passed_before_the_engine_served(engine: Engine) -> None:
    self_test = engine.first_state["selfTest"]
    assert isinstance(self_test, dict)
    assert (self_test["state"], self_test["failedK"]) == ("Passed", [])


def test_the_static_table_is_in_force_after_it(engine: Engine) -> None:
    assert (engine.first_state["schedule"], engine.first_state["source"]) == (STATIC_TABLE, "Static")
    assert (engine.first_state["probe"], engine.first_state["measuring"]) == (None, True)


def test_its_outcome_is_in_the_log(engine: Engine) -> None:
    assert "outrider: self-test Passed: took" in engine.log_file.read_text(errors="replace")


def test_its_prompt_is_drafted_well_enough_that_accepted_drafts_precede_steps_without(
    plugin: Path, tmp_path: Path
) -> None:
    """An engine that answers wrongly in such a step, and in no other, is found."""
    plugins = (quick_start.NAME, stale_state.NAME)
    with running_engine(plugin, tmp_path, Launch(plugins=plugins)) as wrong:
        self_test = wrong.first_state["selfTest"]
        assert isinstance(self_test, dict)
        assert (self_test["state"], self_test["failedK"]) == ("Failed", [k for k in CANDIDATES if k])
        assert "its greedy tokens differ from" in self_test["detail"]
        assert wrong.first_state["schedule"] == [{"numSpeculativeTokens": 0}]
