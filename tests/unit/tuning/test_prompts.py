"""Prompts on a processor without spare arithmetic, where a token to read takes as long as one to verify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from outrider.tuning.decision import Decision
from outrider.tuning.state import TunerState
from tests.unit.tuning.factories import CANDIDATES, Engine, a_start, run, true_goodput

BATCH, PROMPTS = 32.0, 90.0
Table = Mapping[int, Sequence[float]]
PAYS_NOT: Table = {32: (1079.0, 977.0, 900.0, 683.0, 582.0)}
PAYS: Table = {32: (600.0, 800.0, 950.0, 1079.0, 1000.0)}


def after_wave(state: TunerState, table: Table, *, ticks: int) -> list[Decision]:
    """Streams arrive at once: for two ticks their prompts are read, then they only write."""
    wave = run(state, Engine(BATCH, table=table, prompts=PROMPTS), ticks=2)
    return run(wave[-1].state, Engine(BATCH, table=table), ticks=ticks, at=10.0)


def loss(decision: Decision, table: Table) -> float:
    """Relative, against the best K."""
    best = max(true_goodput(BATCH, k, table) for k in CANDIDATES)
    return 1.0 - true_goodput(BATCH, decision.schedule.k_at(round(BATCH)), table) / best


@pytest.mark.parametrize("table", [PAYS_NOT, PAYS], ids=["drafting pays not", "drafting pays"])
@pytest.mark.parametrize("start", CANDIDATES)
def test_a_wave_of_prompts_leaves_no_wrong_k_behind(table: Table, start: int) -> None:
    seconds_later = after_wave(a_start(start), table, ticks=24)[4:]
    assert max(loss(decision, table) for decision in seconds_later) < 0.1


@pytest.mark.parametrize("start", CANDIDATES)
def test_a_k_that_was_measured_amid_prompts_is_not_taken_for_slow(start: int) -> None:
    """K=0 has few tokens to verify, so prompts slow its steps down most."""
    told = after_wave(a_start(start), PAYS_NOT, ticks=6)[-1].outlook
    assert told is not None
    gain, error = told.posterior.gain(0, 3)
    assert gain > -error
