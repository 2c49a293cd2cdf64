"""The parts of a check, and the engines that they start."""

from __future__ import annotations

from tests.gpu.launches import Arm
from tests.gpu.parts import PARTS, starting


def test_an_engine_that_the_next_part_needs_too_starts_once() -> None:
    assert starting(PARTS, ()) == {
        "first-page": 1,
        "runner": 2,
        "k0": 2,
        "static": 1,
        "adaptive": 1,
        "profile": 0,
        "graphs": 2,
        "rows": 0,
    }


def test_engines_that_run_already_need_no_start() -> None:
    runner = next(part for part in PARTS if part.name == "runner")
    assert starting([runner], [Arm.LIVE]) == {"runner": 1}


def test_every_arm_is_part_of_a_comparison_or_a_start() -> None:
    used = {arm for part in PARTS for arm in (*part.arms, *part.sequence)}
    assert used == set(Arm)
