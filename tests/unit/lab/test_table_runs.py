"""Whole runs on tables, judged by the truth."""

from __future__ import annotations

from functools import cache

import pytest

from outrider.performance.tables_file import read_tables
from outrider_lab.engines.table_engine import Phase
from outrider_lab.figures import Figures
from outrider_lab.maps import MapErrors
from outrider_lab.rivals.contenders import ADAPTIVE, ADAPTIVE_STATIC, NAMES, STATIC
from outrider_lab.table_runs import Setting, run_phases, run_table
from tests.unit.lab.factories import VISIBLE, a_table

TABLES = read_tables(VISIBLE)
SHORT = Setting(loads=(1, 8, 32), dwell=150.0)


@cache
def unmapped() -> Figures:
    """What runs with a map are compared with."""
    return run_table(TABLES["a40_7b"], "outrider", Setting())[1]


@pytest.mark.parametrize("name", TABLES)
def test_the_oracle_has_no_regret(name: str) -> None:
    figures = run_table(TABLES[name], "oracle", SHORT)[1]
    assert figures.regret == pytest.approx(0, abs=1e-9)
    assert figures.overall_regret == pytest.approx(0, abs=1e-9)
    assert figures.seconds_to_optimum == 0


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_a_static_k_reaches_what_the_table_says(k: int) -> None:
    table = TABLES["a40_7b"]
    figures = run_table(table, f"static:{k}", SHORT)[1]
    for phase, load in zip(figures.phases, SHORT.loads, strict=True):
        best = max(table.goodput(load, other) for other in table.candidates)
        assert phase.goodput == pytest.approx(table.goodput(load, k))
        assert phase.overall_regret == pytest.approx(1 - table.goodput(load, k) / best)
    assert figures.switches == 0
    assert figures.probe_share == 0


def test_a_loss_is_measured_against_a_launch_without_drafter() -> None:
    figures = run_table(TABLES["gemma31b_batch11_4k"], "static:0", Setting(loads=(11,)))[1]
    assert figures.worst_loss == pytest.approx(1 - 444.6 / 548.6)


@pytest.mark.parametrize(
    "tuner",
    [name for name in NAMES if not name.startswith((STATIC, ADAPTIVE_STATIC)) and name not in ADAPTIVE],
)
def test_every_policy_runs_and_the_same_seed_gives_the_same_figures(tuner: str) -> None:
    once, again = (run_table(TABLES["cpu_tiny_code"], tuner, SHORT)[1] for _ in range(2))
    assert once == again
    assert -1e-9 <= once.overall_regret < 1


def test_the_law_beats_the_hand_table_on_a_table_it_never_saw() -> None:
    law, hand = (run_table(TABLES["a40_7b"], tuner, SHORT)[1] for tuner in ("outrider", "hand"))
    assert law.overall_regret < hand.overall_regret


def test_another_text_can_follow_in_the_same_run() -> None:
    good, bad = a_table(), a_table(rows=((50, 20), (300, 100), (600, 200)))
    figures = run_phases([Phase(8, 150.0, good), Phase(8, 150.0, bad)], "oracle", Setting())[1]
    assert [phase.best_k for phase in figures.phases] == [1, 0]
    assert figures.overall_regret == pytest.approx(0, abs=1e-9)


def test_a_field_of_the_laws_policy_can_be_replaced() -> None:
    quiet = Setting(loads=(8,), policy={"probe_share": 0.0, "calibration_seconds": 0.0})
    assert run_table(TABLES["a40_7b"], "outrider", quiet)[1].probe_share == 0


def test_with_a_step_time_profile_the_schedule_alone_has_less_regret_and_needs_fewer_probes() -> None:
    without, mapped = (
        run_table(TABLES["a40_7b"], "outrider-schedule", Setting(map_errors=errors))[1]
        for errors in (None, MapErrors(0.03))
    )
    assert mapped.overall_regret < 0.5 * without.overall_regret
    assert mapped.calibration_seconds < 0.5 * without.calibration_seconds


def test_with_a_step_time_profile_both_loops_need_no_calibration() -> None:
    mapped = run_table(TABLES["a40_7b"], "outrider", Setting(map_errors=MapErrors(0.03)))[1]
    assert mapped.calibration_seconds < 0.5 * unmapped().calibration_seconds
    assert mapped.regret is not None
    assert mapped.regret < 0.003


def test_a_map_of_other_engines_costs_no_more_than_none() -> None:
    setting = Setting(map_errors=MapErrors(0.03), map_of=TABLES["cpu_tiny_code"])
    mapped = run_table(TABLES["a40_7b"], "outrider", setting)[1]
    assert mapped.overall_regret < unmapped().overall_regret + 0.002
