"""A comparison of two launches on simulated engines under open traffic."""

from __future__ import annotations

import pytest

from tests.bench.tuning.launches import cases, compare


@pytest.mark.parametrize(
    ("case", "adaptive", "wanted", "truth"),
    [
        ("better by 20 %", False, "adaptive", 25.0),
        ("worse by 20 %", True, "fixed", -20.0),
        ("equal, moving", False, "", 0.0),
        ("drafter: dearer", False, "returned", -13.0),
    ],
    ids=["better", "worse", "equal", "worse drafter"],
)
def test_the_better_launch_is_chosen(case: str, adaptive: bool, wanted: str, truth: float) -> None:
    found = compare(cases()[case], seed=0, adaptive=adaptive)
    assert found.wanted == wanted
    assert found.low - 2.0 < truth < found.high + 2.0
