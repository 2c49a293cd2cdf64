"""The bookkeeping of the benchmark."""

from __future__ import annotations

import pytest

from tests.bench.tuning.families import WITH_MAP, WRONG, Job, Row, moving, stationary, steady
from tests.bench.tuning.statistics import estimate, hindsight
from tests.bench.tuning.synthetic import synthetic_tables

POLICIES = ("outrider",)


def a_row(policy: str, regret: float, *, seed: int = 0, case: str = "a") -> Row:
    named = {"family": "stationary", "case": case, "trace": "steps", "half": "report", "seed": str(seed)}
    return {**named, "policy": policy, "overall_regret": regret}


def test_no_table_and_trace_is_in_both_halves() -> None:
    for family in (stationary, moving, steady):
        tune, report = (
            {(job.case, job.trace) for job in family(half, 1, POLICIES)} for half in ("tune", "report")
        )
        assert tune
        assert report
        assert not tune & report


def test_both_halves_know_every_table_and_every_kind_of_trace() -> None:
    for family in (stationary, moving):
        tune, report = ({job.case for job in family(half, 1, POLICIES)} for half in ("tune", "report"))
        assert tune == report


def test_synthetic_tables_are_the_same_every_time_and_not_monotone_where_they_are_like_experts() -> None:
    assert synthetic_tables() == synthetic_tables()
    assert {table.mixture_of_experts for table in synthetic_tables()} == {True, False}


def test_the_interval_is_over_seeds_and_the_mean_over_tables() -> None:
    rows = [
        a_row("x", 0.01 * seed + shift, seed=seed, case=str(shift)) for seed in range(3) for shift in (0, 0.1)
    ]
    found = estimate(rows, "overall_regret")
    assert found.mean == pytest.approx(0.06)
    assert found.high - found.mean == pytest.approx(1.96 * 0.01 / 3**0.5)


def test_hindsight_takes_the_best_static_k_of_each_table() -> None:
    rows = [
        a_row("static:0", 0.3),
        a_row("static:1", 0.1),
        a_row("static:0", 0.05, case="b"),
        a_row("static:1", 0.2, case="b"),
        a_row("outrider", 0.01),
    ]
    assert sorted(row["overall_regret"] for row in hindsight(rows)) == [0.05, 0.1]  # type: ignore[type-var]


def test_a_policy_with_a_map_names_its_error_and_one_of_other_engines_is_worse() -> None:
    policies = ("outrider", WITH_MAP, f"{WITH_MAP}:{WRONG}")
    job = Job("stationary", "published", "a40_7b", "steps", "tune", 1, policies)
    regrets = {str(row["policy"]): float(row["overall_regret"]) for row in job.run()}  # type: ignore[arg-type]
    assert list(regrets) == list(policies)
    assert regrets[WITH_MAP] < regrets[f"{WITH_MAP}:{WRONG}"] < regrets["outrider"] + 0.003
