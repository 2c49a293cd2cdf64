"""What the figures of a GPU say."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.contract.measuring import Samples
from tests.gpu.cells import largest_cell
from tests.gpu.verdicts import Cell, Check, Verdict, exit_status, of_cost, of_map


def cost(low: float, high: float, pairs: int = 12) -> Mapping[str, object]:
    return {"pairs": pairs, "interval_95_percent": [low, high]}


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((-1.0, 2.0), Verdict.MET),
        ((2.1, 5.0), Verdict.NOT_MET),
        ((1.0, 3.0), Verdict.UNCLEAR),
    ],
)
def test_a_cost_is_judged_by_its_whole_interval(interval: tuple[float, float], verdict: Verdict) -> None:
    assert of_cost("x", cost(*interval), limit_percent=2.0).verdict is verdict


@pytest.mark.parametrize("figures", [{}, cost(0.0, 0.0, pairs=3), {"pairs": 12}])
def test_a_cost_without_enough_pairs_did_not_run(figures: Mapping[str, object]) -> None:
    assert of_cost("x", figures, limit_percent=2.0).verdict is Verdict.NOT_RUN


MAP = [Cell(8, k, context, (1 + k) * (1 + context / 1000)) for k in (0, 1, 3) for context in (0.0, 1000.0)]


def lived(factor: float) -> list[Cell]:
    return [Cell(8.1, k, 500.0, factor * (1 + k) * 1.5) for k in (0, 1, 3)]


@pytest.mark.parametrize(("factor", "verdict"), [(1.02, Verdict.MET), (0.9, Verdict.NOT_MET)])
def test_a_map_is_judged_by_its_mean_error(factor: float, verdict: Verdict) -> None:
    assert of_map("x", MAP, lived(factor), limit_percent=3.0).verdict is verdict


def test_errors_of_both_signs_do_not_cancel() -> None:
    cells = [lived(1.1)[0], lived(0.9)[1], lived(1.0)[2]]
    assert of_map("x", MAP, cells, limit_percent=3.0).verdict is Verdict.NOT_MET


def test_a_live_cell_is_the_bin_with_most_steps() -> None:
    def sample(name: str, batch: str, value: float) -> tuple[tuple[str, frozenset[tuple[str, str]]], float]:
        return (f"outrider:{name}_total", frozenset({("batch", batch), ("k", "3")})), value

    counted = Samples(
        dict(
            [
                sample("steps", "7-12", 10),
                sample("scheduled_requests", "7-12", 80),
                sample("context_tokens", "7-12", 8000),
                sample("step_seconds", "7-12", 0.5),
                sample("steps", "1", 2),
                sample("step_seconds", "1", 9.0),
            ]
        )
    )
    assert largest_cell(counted, 3) == Cell(8.0, 3, 100.0, 0.05)
    assert largest_cell(counted, 0) is None


def test_only_where_every_check_is_met_the_command_succeeds() -> None:
    met, unclear, not_run = (
        Check("x", 1.0, verdict, {}) for verdict in (Verdict.MET, Verdict.UNCLEAR, Verdict.NOT_RUN)
    )
    assert exit_status([met, met]) == 0
    assert exit_status([met, unclear]) == exit_status([met, not_run]) == 1


def test_nothing_checked_is_no_success() -> None:
    assert exit_status([]) == 1
