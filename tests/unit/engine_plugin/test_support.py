"""Which engines can change K while they run, and what they say if not."""

from __future__ import annotations

import pytest

from outrider_engine.support import FIXED_K_METHODS, LIVE_METHODS, Runner, obstacle
from tests.unit.engine_plugin.factories import some_facts


@pytest.mark.parametrize("runner", Runner)
def test_a_method_that_follows_k_has_no_obstacle(runner: Runner) -> None:
    for method in LIVE_METHODS[runner]:
        assert obstacle(some_facts(method=method, runner=runner), has_table=True) is None


@pytest.mark.parametrize("runner", Runner)
@pytest.mark.parametrize("method", sorted(FIXED_K_METHODS))
def test_a_method_that_asserts_on_k_is_told_as_such(method: str, runner: Runner) -> None:
    reason = obstacle(some_facts(method=method, runner=runner), has_table=True)
    assert reason is not None
    assert "ends the engine" in reason


def test_a_method_that_nobody_knows_is_not_tuned() -> None:
    reason = obstacle(some_facts(method="new_one"), has_table=True)
    assert reason == "method new_one does not follow K on the V1 runner"


def test_an_engine_without_a_table_is_told_how_it_was_launched() -> None:
    reason = obstacle(some_facts(), has_table=False)
    assert reason is not None
    assert "num_speculative_tokens_per_batch_size" in reason
