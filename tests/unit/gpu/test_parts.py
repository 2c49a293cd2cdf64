"""The parts of a check, and the engines that they start."""

from __future__ import annotations

import pytest

from tests.gpu.__main__ import options, outcome
from tests.gpu.launches import Arm
from tests.gpu.parts import PARTS, kept, waits
from tests.gpu.record import Status


def test_engines_of_several_parts_start_together_on_a_gpu() -> None:
    assert waits(PARTS, (), 3) == {
        "first-page": 1,
        "profile": 0,
        "rows": 0,
        "k0": 1,
        "static": 1,
        "adaptive": 0,
        "runner": 1,
        "graphs": 3,
    }


def test_elsewhere_they_start_one_after_the_other_and_once() -> None:
    assert waits(PARTS, (), 0) == {
        "first-page": 1,
        "profile": 0,
        "rows": 0,
        "k0": 3,
        "static": 1,
        "adaptive": 1,
        "runner": 2,
        "graphs": 3,
    }


def test_engines_that_run_already_need_no_start() -> None:
    runner = next(part for part in PARTS if part.name == "runner")
    assert waits([runner], [Arm.LIVE], 0) == {"runner": 1}
    assert waits([runner], runner.arms, 3) == {"runner": 0}


def test_the_first_page_is_alone_on_the_gpu() -> None:
    assert kept(PARTS, 3) == (Arm.FIRST_PAGE,)
    assert kept(PARTS[4:], 3) == (Arm.LIVE, Arm.STATIC, Arm.ADAPTIVE)
    assert kept(PARTS[4:], 0) == (Arm.LIVE, Arm.STATIC)


def test_every_arm_is_part_of_a_comparison_or_a_start() -> None:
    used = {arm for part in PARTS for arm in (*part.arms, *part.sequence)}
    assert used == set(Arm)


ENDED = """the engine ended with 1:
ERROR ValueError: Adaptive verification requires full CUDA graphs. Use cudagraph mode FULL.
ERROR Engine core initialization failed.
"""


def test_an_engine_that_cannot_verify_adaptively_says_so_on_the_page() -> None:
    adaptive = next(part for part in PARTS if part.name == "adaptive")
    why = "Adaptive verification requires full CUDA graphs. Use cudagraph mode FULL."
    assert outcome(adaptive, ENDED) == (Status.NOT_HERE, why)


def test_any_other_end_of_an_engine_is_a_failure() -> None:
    adaptive, static = (next(p for p in PARTS if p.name == name) for name in ("adaptive", "static"))
    assert outcome(adaptive, "the engine ended with 1:\nout of memory")[0] is Status.FAILED
    assert outcome(static, ENDED)[0] is Status.FAILED


def test_chosen_parts_keep_their_order() -> None:
    assert [part.name for part in options(["--parts", "static,rows"]).parts] == ["rows", "static"]
    assert options([]).parts == PARTS


def test_an_unknown_part_is_refused_with_the_names_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options(["--parts", "static,speed"])
    assert "no part speed; there are first-page, profile" in capsys.readouterr().err
