"""The law on engines that live on published throughputs, with noise."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import mean

import pytest

from outrider.performance.tables_file import read_tables
from outrider_lab.figures import Figures
from outrider_lab.table_runs import Setting, run_table

TABLES = read_tables(Path(__file__).parents[3] / "examples/tables/visible_tables.json")


@cache
def figures(name: str, policy: str = "outrider", *, runs: int = 4, **changes: object) -> tuple[Figures, ...]:
    """Several tests look at the same runs, each at something else."""
    settings = (Setting(seed=seed, **changes) for seed in range(runs))  # type: ignore[arg-type]
    return tuple(run_table(TABLES[name], policy, setting)[1] for setting in settings)


def steady_regret(run: Figures) -> float:
    assert run.regret is not None
    return run.regret


@pytest.mark.parametrize("name", TABLES)
def test_steady_loads_are_served_within_two_percent_of_the_best_k(name: str) -> None:
    runs = figures(name)
    assert mean(steady_regret(f) for f in runs) <= 0.02
    assert mean(f.overall_regret for f in runs) <= 0.03


@pytest.mark.parametrize("name", ["a40_7b", "cpu_tiny_code"])
def test_the_law_is_ahead_of_a_bandit_without_a_model(name: str) -> None:
    assert mean(f.overall_regret for f in figures(name)) < mean(
        f.overall_regret for f in figures(name, "bandit")
    )


def test_probes_keep_to_their_share_and_changes_are_few() -> None:
    for run in figures("a40_7b", runs=2, loads=(32,), dwell=1800.0):
        assert run.steady_probe_share <= 0.03
        assert run.switches_per_hour <= 6


def test_more_noise_does_not_mean_more_changes_than_allowed() -> None:
    for run in figures("cpu_tiny_code", runs=2, loads=(8,), dwell=3600.0, noise=0.15):
        assert run.switches_per_hour <= 15  # nine at once, then six per hour


def test_the_reported_speedup_covers_the_true_one() -> None:
    covered = [
        f.coverage for name in ("a40_7b", "cpu_tiny_code") for f in figures(name) if f.coverage is not None
    ]
    assert mean(covered) >= 0.95
