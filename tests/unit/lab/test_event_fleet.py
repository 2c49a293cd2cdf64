"""What the law sees of the discrete-event engine, and how runs are judged."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from outrider.tuning.decision import Probe, Slice
from outrider.tuning.observe.window import Gap, GapReason, Observation, Window
from outrider_lab.engines.fleet import Fleet
from outrider_lab.scenario_runs import run_scenario, truth_of
from outrider_lab.scenarios import EventScenario
from outrider_protocol.schedule import Schedule
from tests.unit.lab.factories import EDGES, K1, a_scenario, closed, opened


def fleet_of(scenario: EventScenario, seed: int = 0) -> Fleet:
    return scenario.fleet(EDGES, np.random.default_rng(seed))


def observed(
    scenario: EventScenario, *, ticks: int = 12, schedule: Schedule = K1, probe: Probe | None = None
) -> list[Observation]:
    fleet = fleet_of(scenario)
    return [
        fleet.advance(5.0 * (i + 1), schedule, probe if i == 4 else None).observations[0]
        for i in range(ticks)
    ]


def windows(found: list[Observation]) -> list[Window]:
    return [o for o in found if isinstance(o, Window)]


def test_neighbouring_windows_share_a_scrape_and_do_not_overlap() -> None:
    seen = windows(observed(a_scenario(closed(8))))
    assert len(seen) >= 9
    assert all(b.started_at == a.ended_at for a, b in pairwise(seen))


def test_cells_add_up_to_the_window() -> None:
    for seen in windows(observed(a_scenario(closed(8), noise=0.0))):
        assert sum(c.emitted_tokens for c in seen.cells) == pytest.approx(seen.tokens)
        assert sum(c.requests for c in seen.cells) >= seen.request_steps
        assert {c.num_speculative_tokens for c in seen.cells} == {1}


def test_a_reset_of_the_counters_is_a_gap_and_passes() -> None:
    found = observed(a_scenario(closed(8), resets=(22.0,)))
    gaps = [o.reason for o in found if isinstance(o, Gap)]
    assert GapReason.COUNTER_RESET in gaps
    assert isinstance(found[-1], Window)


def test_a_probe_shows_as_a_cell_of_its_k() -> None:
    probe = Probe("default/engine-0", 7, 12, (Slice(3, 2.0),))
    cells = [
        c
        for w in windows(observed(a_scenario(closed(8), noise=0.0), probe=probe))
        for c in w.cells
        if c.num_speculative_tokens == 3
    ]
    assert sum(c.step_seconds for c in cells) == pytest.approx(2.0, abs=0.1)


def test_the_best_static_k_has_no_regret_at_equal_work() -> None:
    scenario = a_scenario(closed(8, seconds=150.0))
    best = truth_of(scenario).phases[0].best_k
    figures = run_scenario(scenario, f"static:{best}")[1]
    assert figures.regret == pytest.approx(0, abs=1e-9)
    assert figures.seconds_to_optimum == 0


def test_the_oracle_follows_a_change_of_the_text() -> None:
    hard = closed(24, seconds=150.0)
    easy = closed(2, seconds=150.0)
    scenario = a_scenario(easy, hard)
    figures = run_scenario(scenario, "oracle")[1]
    assert abs(figures.overall_regret) < 0.005
    worst = max(run_scenario(scenario, f"static:{k}")[1].overall_regret for k in scenario.candidates)
    assert worst > 0.05


def test_k_0_loses_its_tax_against_no_speculation() -> None:
    figures = run_scenario(a_scenario(closed(8, seconds=150.0)), "static:0")[1]
    assert figures.worst_loss == pytest.approx(1 - 1 / 1.1, abs=0.005)


def test_the_speedup_is_checked_where_batch_and_text_stay_for_a_whole_phase() -> None:
    steady = run_scenario(a_scenario(closed(8, seconds=150.0)), "outrider")[1]
    swinging = run_scenario(a_scenario(opened(1.0, seconds=150.0)), "outrider")[1]
    assert steady.coverage is not None
    assert swinging.coverage is None
