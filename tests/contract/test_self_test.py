"""Before an engine serves it has tried every candidate."""

from __future__ import annotations

import pytest

from tests.contract.engine import STATIC_TABLE, Engine

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
