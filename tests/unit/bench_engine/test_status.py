from __future__ import annotations

import pytest

from examples.kit.loads import Prompts
from examples.kit.records import StatusSample
from tests.bench.engine.figures import Analysis
from tests.bench.engine.plan import NONE
from tests.bench.engine.records import UnitRecord
from tests.bench.engine.status import Reported, coverage, reactions
from tests.bench.engine.trace import parse_trace
from tests.unit.bench_engine.factories import a_block, a_run, a_status

TRACE = parse_trace("1:40,8:40", Prompts.CODE)


def analysis(*statuses: StatusSample, policy: str = "outrider", eight: int = 400) -> Analysis:
    """Outrider over two phases of 40 s; K=3 is best for one stream, K=0 for eight."""
    units: list[UnitRecord] = [
        *(a_block(number, {"0": 100, "3": 200}) for number in range(2)),
        *(a_block(number, {"0": 400, "3": 300}, streams=8) for number in range(2)),
        *(a_block(number, {NONE: 100}) for number in range(2)),
        *(a_block(number, {NONE: 400}, streams=8) for number in range(2)),
        a_run(policy, [(1, [200] * 40), (8, [eight] * 40)], statuses=statuses),
    ]
    return Analysis(TRACE, units)


def only(found: list[Reported]) -> Reported:
    assert len(found) == 1
    return found[0]


def test_the_reaction_time_is_from_the_step_to_the_next_k() -> None:
    found = reactions(analysis(a_status(39, "*:3"), a_status(41, "*:3"), a_status(52, "1:3,*:0")))
    assert [(one.k_before, one.k_after, one.seconds, one.wanted) for one in found] == [(3, 0, 12.0, True)]


def test_a_table_that_fits_already_needs_no_new_one() -> None:
    found = reactions(analysis(a_status(41, "1:3,*:0"), a_status(60, "1:1,*:0")))
    assert [(one.seconds, one.wanted) for one in found] == [(None, False)]


def test_a_step_that_wanted_a_new_table_and_got_none_shows() -> None:
    found = reactions(analysis(a_status(41, "*:3"), a_status(79, "*:3")))
    assert [(one.seconds, one.wanted) for one in found] == [(None, True)]


def test_the_last_speedup_of_a_phase_is_held_against_the_launch_without_drafter() -> None:
    found = coverage(
        analysis(
            a_status(20, "*:3", speedup=(1.0, 1.1, 1.2), measured_at=15),
            a_status(39, "*:3", speedup=(1.9, 2.05, 2.2), measured_at=35),
        )
    )
    assert found is not None
    told = only(found.reported)
    assert (told.ratio, told.measured.value, told.measured_over_zero) == pytest.approx((2.05, 2.0, 2.0))
    assert told.covered
    assert found.covered == found.consistent == 1.0
    assert found.left_out == 1


def test_the_measured_ratio_has_an_error_of_its_own() -> None:
    """With a single slice of the plain engine the ratio is known to 5 %, so 2.0 may be 2.15."""
    units: list[UnitRecord] = [
        a_block(0, {NONE: 100}),
        a_block(0, {NONE: 400}, streams=8),
        a_run(
            "outrider",
            [(1, [200] * 40), (8, [400] * 40)],
            statuses=[a_status(39, "*:3", speedup=(2.12, 2.15, 2.18), measured_at=35)],
        ),
    ]
    found = coverage(Analysis(TRACE, units))
    assert found is not None
    told = only(found.reported)
    assert (told.covered, told.consistent) == (False, True)
    assert found.noise == pytest.approx(0.11, abs=0.02)
