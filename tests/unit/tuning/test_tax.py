"""What K=0 costs beside a drafter, measured on pods that were launched without one."""

from __future__ import annotations

import json
from functools import cache
from math import log1p

import numpy as np
import pytest

from outrider.tuning.decision import Decision, Reference
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from outrider.tuning.observe.window import Window
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState
from outrider.tuning.stored import from_wire, to_wire
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import (
    POLICY,
    Engine,
    a_cell,
    a_start,
    a_window,
    an_exact_window,
    run,
    true_goodput,
)

TAX = 0.15


def bare(at: float, *, batch: float = 16.0, tax: float = TAX) -> Window:
    """Five seconds of a pod without drafter, faster than K=0 beside one by the tax."""
    goodput = true_goodput(batch, 0) * (1 + tax)
    cell = a_cell(batch=batch, k=0, goodput=goodput, seconds=5.0)
    return an_exact_window(cell, at=at, pod="default/canary", batch=batch)


def with_canary(state: TunerState, *, ticks: int, at: float, batch: float = 16.0) -> Decision:
    return beside_canary(Engine(batch), state, ticks=ticks, at=at, batch=batch)[-1]


def beside_canary(
    engine: Engine, state: TunerState, *, ticks: int, at: float, batch: float, tax: float = TAX
) -> list[Decision]:
    """batch: of the canary, whose steps are those of the same engine without a drafter."""
    decisions: list[Decision] = []
    for i in range(1, ticks + 1):
        now = at + 5.0 * i
        seen = [engine.window(decisions[-1] if decisions else None, state, seconds=5.0, at=now)]
        goodput = Engine(batch, table=engine.table).goodput(0) * (1 + tax)
        cell = a_cell(batch=batch, k=0, goodput=goodput, seconds=5.0)
        canary = an_exact_window(cell, at=now, pod="default/canary", batch=batch)
        decisions.append(decide(TickContext(seen, state, policy=POLICY, now=now, without_drafter=[canary])))
        state = decisions[-1].state
    return decisions


def looks(decisions: list[Decision]) -> float:
    """Seconds of slices at K=0."""
    probes = [d.probe for d in decisions if d.probe is not None]
    return sum(s.seconds for p in probes for s in p.slices if s.num_speculative_tokens == 0)


@cache
def learnt(batch: float = 16.0) -> TunerState:
    return run(a_start(), Engine(batch), ticks=60)[-1].state


def test_a_canary_tells_the_tax() -> None:
    tax = with_canary(learnt(), ticks=30, at=300.0).state.canary.overhead
    assert tax is not None
    assert tax.mean == pytest.approx(log1p(TAX), abs=2 * tax.deviation)
    assert tax.deviation <= POLICY.relaunch.canary_deviation


@pytest.mark.parametrize("batch", [1.0, 4.0, 8.0, 16.0, 32.0])
def test_a_canary_tells_the_tax_whether_drafting_pays_or_not(batch: float) -> None:
    """Where it pays, K=0 hardly runs, so a canary makes it run."""
    told = with_canary(learnt(batch), ticks=int(POLICY.relaunch.canary_seconds / 5.0), at=300.0, batch=batch)
    assert told.speedup is not None
    assert told.speedup.reference is Reference.CANARY
    assert told.state.canary.overhead is not None
    assert told.state.canary.overhead.deviation <= POLICY.relaunch.canary_deviation
    assert told.state.canary.overhead.mean == pytest.approx(
        log1p(TAX), abs=2 * told.state.canary.overhead.deviation
    )


def test_a_measured_tax_moves_the_speedup_and_its_reference() -> None:
    before = run(learnt(), Engine(16.0), ticks=1, at=300.0)[-1].speedup
    after = with_canary(learnt(), ticks=30, at=300.0).speedup
    assert before is not None
    assert after is not None
    assert (before.reference, after.reference) == (Reference.PROBE, Reference.CANARY)
    assert after.ratio < before.ratio
    assert after.high - after.low < before.high - before.low


def test_the_age_of_a_speedup_is_that_of_the_older_measurement() -> None:
    told = with_canary(learnt(), ticks=30, at=300.0)
    later = run(told.state, Engine(16.0), ticks=20, at=2000.0)[-1].speedup
    assert later is not None
    assert later.reference is Reference.CANARY
    assert later.measured_at == 450.0


def test_the_step_times_of_a_canary_stay_out_of_the_surface_of_the_others() -> None:
    state = learnt()
    alone = run(state, Engine(16.0), ticks=1, at=300.0)[-1].state
    beside = with_canary(state, ticks=1, at=300.0).state
    assert beside.learning.known == alone.learning.known
    assert beside.bins == alone.bins


ALIKE = {batch: (100.0 * batch, *(150.0 * batch + k for k in (0, 1, 2, 1))) for batch in (1, 8, 64)}
"""Drafting pays, and every K > 0 as much as the others: no probe gives certainty."""


def test_while_a_canary_waits_k_0_is_looked_at_though_other_k_are_worth_more() -> None:
    engine = Engine(8.0, table=ALIKE)
    state = run(a_start(), engine, ticks=60)[-1].state
    tax = beside_canary(engine, state, ticks=36, at=300.0, batch=8.0)[-1].state.canary.overhead
    assert tax is not None
    assert tax.deviation <= POLICY.relaunch.canary_deviation
    assert tax.mean == pytest.approx(log1p(TAX), abs=0.01)


@pytest.mark.parametrize("batch", [6.0, 11.0])
def test_a_canary_with_another_load_tells_less_but_nothing_wrong(batch: float) -> None:
    """What one more request in a step costs is known from K > 0 only."""
    engine, state = Engine(8.0, table=ALIKE), a_start()
    for at, load in enumerate((4.0, 16.0, 8.0)):
        state = run(state, Engine(load, table=ALIKE), ticks=20, at=100.0 * at)[-1].state
    tax = beside_canary(engine, state, ticks=60, at=300.0, batch=batch)[-1].state.canary.overhead
    assert tax is not None
    assert POLICY.relaunch.canary_deviation < tax.deviation < POLICY.estimation.k0_tax_deviation
    assert tax.mean == pytest.approx(log1p(TAX), abs=2 * tax.deviation)


def test_k_0_is_looked_at_for_its_share_of_one_pod_until_the_tax_is_known_and_no_longer() -> None:
    engine = Engine(8.0, table=ALIKE)
    state = run(a_start(), engine, ticks=60)[-1].state
    told = beside_canary(engine, state, ticks=60, at=300.0, batch=8.0)
    limit = POLICY.relaunch.canary_deviation
    known = next(
        i
        for i, d in enumerate(told)
        if d.state.canary.overhead is not None and d.state.canary.overhead.deviation <= limit
    )
    own = POLICY.exploration.probe_share + POLICY.relaunch.canary_share
    assert 0.0 < looks(told[:known]) <= own * 5.0 * known + POLICY.exploration.probe_burst_seconds
    assert looks(told[known + 1 :]) == 0.0


def test_where_k_0_is_in_force_no_slice_of_it_is_needed() -> None:
    beside = beside_canary(Engine(16.0), learnt(16.0), ticks=10, at=300.0, batch=16.0)
    assert beside[-1].schedule.k_at(16) == 0
    assert looks(beside) == 0.0


def test_looks_for_a_canary_are_no_losses_of_tuning() -> None:
    engine = Engine(8.0, table=ALIKE)
    state = run(a_start(), engine, ticks=60)[-1].state
    beside = beside_canary(engine, state, ticks=12, at=300.0, batch=8.0)
    assert looks(beside) >= 10.0
    lost = beside[-1].state.fallback.ledger.gain - state.fallback.ledger.gain
    assert lost == pytest.approx(0.0, abs=0.002)


def test_where_tables_are_not_carried_out_nothing_is_looked_at_for_a_canary() -> None:
    engine, state = Engine(8.0, table=ALIKE), a_start()
    for i in range(1, 20):
        seen = [engine.window(None, state, seconds=5.0, at=5.0 * i)]
        table = Schedule.constant(3)
        told = decide(
            TickContext(
                seen,
                state,
                policy=POLICY,
                now=5.0 * i,
                in_force=table,
                without_drafter=[bare(5.0 * i, batch=8.0)],
            )
        )
        assert told.probe is None
        state = told.state


def test_a_canary_that_is_gone_leaves_its_figure_only() -> None:
    state = with_canary(learnt(), ticks=30, at=300.0).state
    assert state.canary.comparison is not None
    later = run(state, Engine(16.0), ticks=1, at=1500.0)[-1].state
    assert later.canary.comparison is None
    assert later.canary.overhead == state.canary.overhead


def test_without_knowledge_of_k_0_a_canary_tells_nothing() -> None:
    """Many comparisons with the same wrong guess only repeat its error."""
    prior = IdleDrafterOverhead.prior(POLICY.estimation)
    errors = np.full((50, 50), 0.04) + np.eye(50) * 0.001
    found = prior.after(np.full(50, 0.3), errors, 10.0, between_pods=0.0)
    assert found.deviation > 0.9 * prior.deviation
    assert not found.measured(POLICY.estimation)


def test_comparisons_at_places_that_are_known_apart_tell_more_than_one() -> None:
    prior = IdleDrafterOverhead.prior(POLICY.estimation)
    one, four = (prior.after(np.full(n, 0.1), np.eye(n) * 0.02**2, 10.0, between_pods=0.0) for n in (1, 4))
    assert four.deviation == pytest.approx(one.deviation / 2, rel=0.05)
    assert four.mean == pytest.approx(0.1, abs=0.002)


def test_a_tax_is_forgotten() -> None:
    tax = IdleDrafterOverhead(0.1, 0.02**2, measured_at=0.0)
    assert tax.measured(POLICY.estimation)
    later = tax.at(5 * POLICY.estimation.tax_half_life_seconds, POLICY.estimation)
    assert not later.measured(POLICY.estimation)
    assert later.deviation < POLICY.estimation.k0_tax_deviation


def test_a_tax_survives_being_stored() -> None:
    state = with_canary(learnt(), ticks=30, at=300.0).state
    assert from_wire(json.loads(json.dumps(to_wire(state))), POLICY).canary.overhead == state.canary.overhead


def test_a_state_that_was_stored_before_taxes_were_measured_is_still_read() -> None:
    wire = json.loads(json.dumps(to_wire(learnt())))
    del wire["state"]["canary"]
    assert from_wire(wire, POLICY).canary.overhead is None


def off(state: TunerState, *, batch: float, now: float, policy: Policy = POLICY) -> Decision:
    return decide(TickContext([], state, policy=policy, now=now, without_drafter=[bare(now, batch=batch)]))


def structural(decision: Decision) -> str | None:
    return None if decision.outlook is None else decision.outlook.structural


def test_without_any_drafter_the_law_says_what_one_would_bring() -> None:
    state = run(learnt(16.0), Engine(1.0), ticks=40, at=300.0)[-1].state
    loaded, idle = off(state, batch=16.0, now=600.0), off(state, batch=1.0, now=600.0)
    assert (structural(loaded), structural(idle)) == ("Keep", "On")
    assert loaded.reason == "NoDrafter"
    assert loaded.schedule == state.schedule


def test_what_was_learnt_beside_a_drafter_is_not_forgotten_while_there_is_none() -> None:
    state = run(learnt(16.0), Engine(1.0), ticks=40, at=300.0)[-1].state
    for hour in range(1, 48):
        decision = off(state, batch=16.0, now=600.0 + 3600.0 * hour)
        state = decision.state
        assert structural(decision) == "Keep"
    for tick in range(1, 61):
        decision = off(state, batch=1.0, now=600.0 + 3600.0 * 48 + 5.0 * tick)
        state = decision.state
    assert structural(decision) == "On"


def test_engines_without_the_plugin_tell_the_tax_too() -> None:
    """A whole window of a pod that cannot draft is one reading of K=0."""
    goodput, state = true_goodput(16.0, 0), a_start(0)
    for i in range(1, 30):
        now = 5.0 * i
        beside = a_window(batch=16.0, k=0.0, goodput=goodput, seconds=5.0, ended_at=now)
        without = a_window(
            batch=16.0, k=0.0, goodput=goodput * (1 + TAX), seconds=5.0, ended_at=now, pod="default/canary"
        )
        table = Schedule.constant(0)
        state = decide(
            TickContext([beside], state, policy=POLICY, now=now, in_force=table, without_drafter=[without])
        ).state
    assert state.canary.overhead is not None
    assert state.canary.overhead.mean == pytest.approx(log1p(TAX), abs=0.03)


def test_a_drafter_that_nobody_remembers_gets_its_chance() -> None:
    start = TunerState.start(Schedule.constant(3), POLICY)
    assert structural(off(start, batch=16.0, now=5.0)) == "On"
