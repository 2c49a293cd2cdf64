"""The comparison by kind of traffic: what it draws, what it counts, and what it calls a goal."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from outrider_lab.figures import Curve
from outrider_lab.scenario_runs import static_runs
from tests.bench import held_out
from tests.bench.traffic.__main__ import execute
from tests.bench.traffic.engines import OVERHEADS, REPORT, TUNING, engine
from tests.bench.traffic.kinds import KINDS, scenario
from tests.bench.traffic.runs import BEST_HELD, NO_DRAFTER, OUTRIDER, UNPROFILED, Job, run
from tests.bench.traffic.summary import behind_best, gains, geometric, rules, settled, worst_cells

COMMIT, OTHER = "1" * 40, "2" * 40


def test_a_seed_follows_from_the_commit_and_from_what_it_is_for() -> None:
    assert held_out.seed(COMMIT, "ramps", 0) == held_out.seed(COMMIT, "ramps", 0)
    others = {held_out.seed(*of) for of in ((OTHER, "ramps", 0), (COMMIT, "bursts", 0), (COMMIT, "ramps", 1))}
    assert held_out.seed(COMMIT, "ramps", 0) not in others
    assert len(others) == 3


def test_a_commit_that_the_repository_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="has no commit nonsense"):
        held_out.full_hash("nonsense")


def test_no_engine_is_for_tuning_and_for_reports() -> None:
    assert not set(TUNING) & set(REPORT)


@pytest.mark.parametrize("name", REPORT)
def test_engines_of_the_report_are_drawn_from_the_commit(name: str) -> None:
    def steps(commit: str) -> list[float]:
        found = engine(name, commit, 0.0)
        return [found.step.seconds(8, k, 0.0) for k in found.candidates]

    assert steps(COMMIT) == steps(COMMIT)
    assert steps(COMMIT) != steps(OTHER)


@pytest.mark.parametrize(("name", "overhead"), list(product((*TUNING, *REPORT), OVERHEADS)))
def test_k_0_costs_the_overhead_over_a_launch_without_a_drafter(name: str, overhead: float) -> None:
    found = engine(name, COMMIT, overhead)
    bare = found.step.without_drafter()
    assert found.step.seconds(4, 0, 2000.0) == pytest.approx((1 + overhead) * bare.seconds(4, 0, 2000.0))
    assert found.step.seconds(4, max(found.candidates), 2000.0) == bare.seconds(
        4, max(found.candidates), 2000.0
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_overhead_changes_neither_requests_nor_loads(kind: str) -> None:
    cheap, dear = (scenario(kind, engine("h100_8b", COMMIT, overhead), 7) for overhead in (0.0, 0.1))
    assert cheap.trace == dear.trace
    assert cheap.trace != scenario(kind, engine("h100_8b", COMMIT, 0.0), 8).trace


def test_a_fixed_k_is_as_fast_as_its_own_equal_work() -> None:
    case = Job(COMMIT, "a40_7b", "stationary", 0.1, 0, ()).scenario()
    for place, k in enumerate(case.candidates, start=1):
        spans = static_runs(case)[f"static:{k}"].spans
        end = case.starts[-1]
        needed = Curve.of(spans, needed=place).goodput(0.0, end)
        assert float(Curve.of(spans).goodput(0.0, end)) == pytest.approx(float(needed), rel=0.005)


def test_the_best_held_k_loses_to_no_held_k_and_k_0_loses_its_overhead() -> None:
    found: Any = run(Job(COMMIT, "gb10_30b_moe", "high entropy", 0.1, 0, (OUTRIDER,)))
    assert found["best_held"] == 0
    assert found["found"][BEST_HELD]["gain"] == pytest.approx(1 / 1.1 - 1, abs=0.003)


def a_row(kind: str, number: int = 0, settled: float = 0.0, **found: float) -> dict[str, Any]:
    """A run with the gain of each rule. settled: regret of its only phase after 30 s."""
    phase = {"label": "one", "gain": 0.0, "regret": settled, "settled": settled}
    return {
        "engine": "a40_7b",
        "kind": kind,
        "overhead": 0.1,
        "number": number,
        "found": {rule.replace("_", " "): {"gain": gain, "phases": [phase]} for rule, gain in found.items()},
    }


def test_a_mean_of_speeds_is_geometric() -> None:
    assert geometric([1.0, -0.5]) == pytest.approx(0.0)


def test_a_spread_is_that_of_repetitions() -> None:
    rows = [a_row("ramps", number, outrider=gain) for number, gain in enumerate((0.1, 0.3, 0.2))]
    found = gains(rows, OUTRIDER)
    assert (found.low, found.mean, found.high) == pytest.approx((0.1, 0.2, 0.3))


def test_rules_are_ordered_by_speed_and_a_launch_without_a_drafter_is_the_last() -> None:
    rows = [a_row("ramps", outrider=0.2, hand=-0.1, sglang=0.3)]
    assert rules(rows) == ["sglang", OUTRIDER, "hand", NO_DRAFTER]


def test_outrider_is_behind_the_best_rule_of_a_kind_and_a_launch_without_a_drafter_is_one() -> None:
    rows = [a_row("ramps", outrider=0.0, hand=0.25), a_row("bursts", outrider=-0.1, hand=-0.2)]
    found: dict[str, Any] = behind_best(rows, "kind")
    assert found["ramps"] == ("hand", pytest.approx(0.2))
    assert found["bursts"] == (NO_DRAFTER, pytest.approx(0.1))


def test_the_worst_cell_comes_first() -> None:
    rows = [a_row("ramps", outrider=0.2), a_row("bursts", outrider=-0.1)]
    assert [kind for _, kind, _ in worst_cells(rows)] == ["bursts", "ramps"]


def test_regret_after_30_s_is_the_mean_of_phases() -> None:
    rows = [a_row("ramps", settled=0.01, outrider=0.0), a_row("bursts", settled=0.03, outrider=0.0)]
    assert settled(rows).mean == pytest.approx(0.02)


def test_outrider_meets_the_same_requests_with_and_without_a_profile() -> None:
    found: Any = run(Job(COMMIT, "a40_7b", "stationary", 0.0, 0, (OUTRIDER, UNPROFILED)))
    first, second = (found["found"][rule]["phases"] for rule in (OUTRIDER, UNPROFILED))
    assert [phase["label"] for phase in first] == [phase["label"] for phase in second]


def test_an_interrupted_run_continues_after_half_a_line(tmp_path: Path) -> None:
    journal, job = tmp_path / "rows.jsonl", Job(COMMIT, "gb10_30b_moe", "ramps", 0.0, 0, ())
    (first,) = execute([job], journal, 1)
    journal.write_text(journal.read_text().replace('"best_held": ', '"best_held": 9') + '{"job": "ha')
    (again,) = execute([job], journal, 1)
    assert first["best_held"] != again["best_held"]
    assert str(again["best_held"]).startswith("9")
