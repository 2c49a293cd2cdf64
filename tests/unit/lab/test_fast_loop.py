"""Simulated engines with a fast loop: K follows the text between ticks, and the operator sees what ran."""

from __future__ import annotations

import numpy as np
import pytest

from outrider.performance.step_time import StepTime
from outrider.performance.throughput_table import ThroughputTable
from outrider.tuning.decision import Probe, Slice
from outrider.tuning.observe.window import Window
from outrider_lab.engines.event_fleet import EventFleet, Plant
from outrider_lab.engines.fleet import Fleet, Tick
from outrider_lab.engines.formula_engine import FormulaFleet, FormulaPhase
from outrider_lab.engines.table_engine import Phase, TableFleet
from outrider_lab.scenario_runs import run_scenario, static_runs
from outrider_lab.scenarios import FormulaScenario
from outrider_lab.traffic.requests import Trace, Traffic
from outrider_protocol.cost_model import CostModel
from outrider_protocol.schedule import Schedule

EDGES = (1, 3, 6, 12)
STEP = StepTime(0.008, 2e-8, 3e-5, 0.0012, 2e-9, 3e-6, idle_tax=0.02)
CODE, PROSE = (0.9, 0.9, 0.88), (0.05, 0.05, 0.05)
KS = (0, 1, 3)
MODEL = CostModel(
    revision="r",
    candidates=KS,
    batch_sizes=(1, 8),
    step_seconds=tuple(tuple(STEP.seconds(batch, k, 1000 * batch) for k in KS) for batch in (1, 8)),
    errors=((0.03,) * 3,) * 2,
    context_tokens=1000.0,
    context_slopes=tuple(STEP.growth(k) for k in KS),
    limits=Schedule.constant(3),
)
OFF = Schedule.constant(0)


def _formula() -> Fleet:
    phases = (FormulaPhase(8, 20.0, CODE), FormulaPhase(8, 20.0, PROSE))
    return FormulaFleet(STEP, phases, edges=EDGES, rng=np.random.default_rng(0))


def _events() -> Fleet:
    phases = tuple(Traffic(20.0, text, streams=8, output=200.0, anew=True) for text in (CODE, PROSE))
    return EventFleet(Plant(STEP), Trace(phases), edges=EDGES, candidates=KS, rng=np.random.default_rng(0))


def _tables() -> Fleet:
    good = ThroughputTable("good", (8,), KS, ((900.0, 1500.0, 2400.0),), None, ((0.0, 0.9, 2.4),))
    bad = ThroughputTable("bad", (8,), KS, ((900.0, 800.0, 600.0),), None, ((0.0, 0.05, 0.05),))
    phases = (Phase(8, 20.0, good), Phase(8, 20.0, bad))
    return TableFleet(phases, edges=EDGES, rng=np.random.default_rng(0))


def _steps(tick: Tick) -> dict[int, float]:
    (window,) = tick.observations
    assert isinstance(window, Window)
    total = sum(cell.steps for cell in window.cells)
    steps: dict[int, float] = {}
    for cell in window.cells:
        steps[cell.num_speculative_tokens] = steps.get(cell.num_speculative_tokens, 0.0) + cell.steps / total
    return steps


@pytest.mark.parametrize("fleet", [_formula, _events, _tables])
def test_k_follows_the_text_while_the_schedule_stays(fleet: object) -> None:
    engines = fleet()  # type: ignore[operator]
    assert _steps(engines.advance(20.0, OFF, None, MODEL))[3] > 0.8
    engines.advance(30.0, OFF, None, MODEL)
    assert _steps(engines.advance(40.0, OFF, None, MODEL))[0] > 0.8


def test_without_a_cost_model_the_schedule_runs() -> None:
    engines = _formula()
    engines.advance(10.0, OFF, None, MODEL)
    assert _steps(engines.advance(20.0, OFF, None)) == {0: 1.0}


def test_window_holds_the_survival_that_the_fast_loop_estimates() -> None:
    engines = _formula()
    (with_loop,) = engines.advance(10.0, OFF, None, MODEL).observations
    assert isinstance(with_loop, Window)
    assert with_loop.survival is not None
    assert with_loop.survival[0] > with_loop.survival[2] > 0.3
    (without,) = engines.advance(20.0, OFF, None).observations
    assert isinstance(without, Window)
    assert without.survival is None


def test_probe_holds_its_k_whatever_the_fast_loop_would_choose() -> None:
    probe = Probe("default/engine-0", 7, 12, (Slice(1, 5.0),))
    assert _steps(_formula().advance(5.0, OFF, probe, MODEL)) == {1: 1.0}


def test_alternating_text_gains_over_every_fixed_k() -> None:
    texts = ((0.9, 0.9, 0.88, 0.88, 0.85), (0.12, 0.1, 0.1, 0.1, 0.1))
    phases = tuple(FormulaPhase(8, 20.0, texts[turn % 2]) for turn in range(12))
    case = FormulaScenario("alternating", STEP, phases)
    run, _ = run_scenario(case, "fast-loop")

    def goodput(spans: object) -> float:
        return sum(s.tokens for s in spans) / sum(s.engine_seconds for s in spans)  # type: ignore[attr-defined]

    best = max(goodput(static.spans) for static in static_runs(case).values())
    assert goodput(run.spans) > 1.05 * best
