"""Requests whose own K limit leaves drafts out: they gain nothing from a longer draft, and reject none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from outrider.api.drafting import MAX_K
from outrider.tuning.decision import Decision
from outrider.tuning.estimate.acceptance import Profile
from outrider.tuning.estimate.followed import Followed
from outrider.tuning.observe.readings import read
from outrider.tuning.observe.window import Cell, Window
from outrider.tuning.stored import from_wire, to_wire
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import CANDIDATES, POLICY, Engine, a_cell, a_start, an_exact_window, run

KS = (0, 1, 3)
KNOWN = Profile((1e6, 8e5, 4e5), (8e5, 4e5, 1e5))
"""0.8, then 0.5, then 0.25."""


def gained(acceptance: float, k: int) -> float:
    return sum(acceptance**j for j in range(1, k + 1))


def with_limits(cell: Cell, *, off: float, acceptance: float) -> Cell:
    """Of the cell's requests so many have no drafts; it emitted the same tokens in the same time."""
    a = gained(acceptance, cell.num_speculative_tokens)
    more = (1 + a) / (1 + (1 - off) * a)
    requests = cell.requests * more
    return replace(
        cell,
        steps=cell.steps * more,
        requests=requests,
        context_tokens=cell.context_tokens * more,
        drafted_per_position=tuple(count * more * (1 - off) for count in cell.drafted_per_position),
        accepted_per_position=tuple(count * more * (1 - off) for count in cell.accepted_per_position),
        limited_per_position=(requests * off,) * max(CANDIDATES),
    )


@dataclass
class LimitedEngine(Engine):
    """off: ratio of requests without drafts. A step takes as long as with all drafts."""

    off: float = 0.0

    def goodput(self, k: int) -> float:
        a = gained(self.acceptance, k)
        return super().goodput(k) * (1 + (1 - self.off) * a) / (1 + a)

    def window(self, *given: Any, **more: Any) -> Window:
        window = super().window(*given, **more)
        cells = (with_limits(cell, off=self.off, acceptance=self.acceptance) for cell in window.cells)
        return replace(window, cells=tuple(cells))


def best(engine: Engine) -> int:
    return max(CANDIDATES, key=engine.goodput)


def last(engine: Engine, *, k: int = 3, ticks: int = 120) -> Decision:
    return run(a_start(k), engine, ticks=ticks)[-1]


def test_without_limits_nothing_changes() -> None:
    assert np.array_equal(KNOWN.tokens(KS).log_mean, KNOWN.tokens(KS, (0.0, 0.0, 0.0)).log_mean)


def test_a_position_gains_for_the_requests_that_may_verify_it() -> None:
    """Half have no drafts, and another quarter verifies one."""
    found = np.exp(KNOWN.tokens(KS, (0.5, 0.75, 0.75)).log_mean)
    assert found == pytest.approx([1.0, 1 + 0.5 * 0.8, 1 + 0.5 * 0.8 + 0.25 * (0.4 + 0.1)], rel=1e-3)


def test_where_every_request_is_limited_drafts_gain_nothing() -> None:
    found = KNOWN.tokens(KS, [1.0] * MAX_K)
    assert found.log_mean == pytest.approx([0.0, 0.0, 0.0])
    assert not found.slopes.any(), "and acceptance is no question"


@pytest.mark.parametrize("off", [0.0, 0.3, 0.6, 0.8, 0.95, 1.0])
@pytest.mark.parametrize("start", [0, 3])
def test_the_tuner_finds_the_k_that_is_best_for_the_traffic_with_its_limits(off: float, start: int) -> None:
    engine = LimitedEngine(off=off)
    chosen = last(engine, k=start).state.schedule.k_at(round(engine.batch))
    assert engine.goodput(chosen) > 0.97 * engine.goodput(best(engine))


def test_the_traffic_with_limits_has_another_best_k() -> None:
    """Else the test above shows nothing."""
    assert best(LimitedEngine(off=0.95)) < best(LimitedEngine(off=0.0))


def test_a_limited_request_is_no_rejected_draft() -> None:
    profile = last(LimitedEngine(off=0.5), ticks=12).state.learning.profile
    assert profile.rates(2)[0] == pytest.approx([0.6, 0.6], abs=0.01)


def test_the_ratio_of_limited_requests_moves_with_the_traffic_and_ends_with_it() -> None:
    state = last(LimitedEngine(off=0.5), ticks=12).state
    assert state.learning.limited == pytest.approx((0.5,) * max(CANDIDATES))
    assert from_wire(to_wire(state), POLICY) == state
    assert state.at is not None
    later = run(state, LimitedEngine(off=0.0), ticks=200, at=state.at)
    ratios = [decision.state.learning.limited for decision in later]
    assert 0.25 < ratios[0][0] < 0.5
    assert ratios[-1] == ()


def test_what_limited_requests_accepted_is_no_token_that_a_plain_step_gives() -> None:
    cell = replace(a_cell(k=3), limited_per_position=(0.0, 100.0, 100.0), limited_accepted=60.0)
    plain = replace(cell, limited_accepted=0.0)
    rows, others = (
        read([an_exact_window(each)], Schedule.constant(3), POLICY).rows for each in (cell, plain)
    )
    accepted = [Followed.of(rows[0].bin, CANDIDATES, each).accepted for each in (rows, others)]
    assert accepted[0] == accepted[1] + 60.0


def test_bins_that_are_one_to_the_tuner_are_added() -> None:
    short = replace(a_cell(k=3), limited_per_position=(5.0,), limited_accepted=1.0)
    long = replace(a_cell(k=3), limited_per_position=(1.0, 2.0), limited_accepted=2.0)
    (row,) = read([an_exact_window(short, long)], Schedule.constant(3), POLICY).rows
    assert (row.limited, row.limited_accepted) == ((6.0, 2.0), 3.0)
    assert row.part(0.5).limited == (3.0, 1.0)
