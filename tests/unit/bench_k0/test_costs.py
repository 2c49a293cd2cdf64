"""Against what the bench of K=0 compares."""

from __future__ import annotations

from tests.bench.k0.__main__ import costs
from tests.bench.k0.arms import AGAIN, BOTH, STOCK, SYNC
from tests.bench.k0.runs import Run


def runs(*seconds: float) -> list[Run]:
    return [Run(each, 1.0, 1.0, 1.0, 0.0, None) for each in seconds]


def test_k0_is_compared_with_the_mean_of_two_engines_without_a_drafter() -> None:
    found = costs({STOCK: runs(1.1, 1.1), AGAIN: runs(0.9, 0.9), SYNC: runs(1.02, 1.02)}, "seconds")
    assert found[f"{SYNC} against {BOTH}"]["median_percent"] == 2.0  # type: ignore[index]
    assert set(found) == {f"{AGAIN} against {STOCK}", f"{SYNC} against {BOTH}"}
