"""Maps of step times as simulated engines measure them of themselves."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider_lab.engines.formula_engine import FormulaPhase
from outrider_lab.maps import MapErrors, measured_map
from outrider_lab.scenario_runs import run_scenario, scenario_map
from outrider_lab.scenarios import FormulaScenario, Scenario
from tests.unit.lab.factories import CODE, a_scenario, a_step, closed

SLOW = FormulaScenario("slow", a_step(), (FormulaPhase(8, 60.0, CODE), FormulaPhase(24, 60.0, CODE)))


def of_one_second(errors: MapErrors, seed: int = 0) -> StepTimeProfile:
    return measured_map(
        lambda _batch, _k, _context: 1.0,
        candidates=(0, 1, 3),
        largest_batch=48,
        contexts=(512.0, 2048.0),
        errors=errors,
        seed=seed,
    )


def test_every_k_is_measured_at_powers_of_two_and_at_each_context() -> None:
    cells = of_one_second(MapErrors(0.0, 0.0)).cells
    assert len({(c.batch_size, c.k, c.context) for c in cells}) == len(cells) == 6 * 3 * 2
    assert {c.batch_size for c in cells} == {1, 2, 4, 8, 16, 32}
    assert {c.step_seconds for c in cells} == {1.0}


def test_cells_have_their_own_error_and_a_common_one() -> None:
    alone = [log(c.step_seconds) for c in of_one_second(MapErrors(0.05, 0.0)).cells]
    assert np.std(alone) == pytest.approx(0.05, rel=0.4)
    scales = [
        np.mean([log(c.step_seconds) for c in of_one_second(MapErrors(0.0, 0.05), seed).cells])
        for seed in range(40)
    ]
    assert np.std(scales) == pytest.approx(0.05, rel=0.4)


@pytest.mark.parametrize("scenario", [SLOW, a_scenario(closed(8, seconds=120.0))], ids=["formula", "events"])
def test_with_a_map_the_law_has_less_regret(scenario: Scenario) -> None:
    without, mapped = (
        run_scenario(scenario, "outrider", step_times=step_times)[1]
        for step_times in (None, scenario_map(scenario, MapErrors(0.03)))
    )
    assert mapped.overall_regret < without.overall_regret
