"""The fast loop: which K follows from the drafts of late."""

from __future__ import annotations

from outrider_protocol.fast_loop import FastLoop
from tests.unit.protocol.test_cost_model import MODEL


def _serve(loop: FastLoop, steps: int, accepted: float, batch: int = 8) -> list[int]:
    """K of each step, of which this ratio of drafts is accepted at every position."""
    chosen = []
    for _ in range(steps):
        k = loop.choose(batch, 1000 * batch)
        loop.count(k, batch, [round(batch * accepted ** (place + 1)) for place in range(k)])
        chosen.append(k)
    return chosen


def test_text_that_the_drafter_foresees_gets_the_largest_k() -> None:
    assert _serve(FastLoop(MODEL, k=0), 200, 0.95)[-1] == 5


def test_text_that_the_drafter_does_not_foresee_gets_no_drafts_but_looks() -> None:
    loop = FastLoop(MODEL, k=5)
    chosen = _serve(loop, 400, 0.05)[-100:]
    assert loop.k == 0
    assert 0 < sum(k > 0 for k in chosen) <= 10


def test_k_returns_from_0_when_the_text_changes() -> None:
    loop = FastLoop(MODEL, k=0)
    _serve(loop, 400, 0.05)
    _serve(loop, 400, 0.95)
    assert loop.k == 5


def test_survival_is_a_mean_over_the_time_with_and_without_drafts() -> None:
    loop = FastLoop(MODEL, k=0)
    _serve(loop, 20_000, 0.9)
    assert abs(loop.survival[0] - 0.9) < 0.1
    _serve(loop, 2_500, 0.0)  # about 21 of the 30 seconds
    assert 0.2 < loop.survival[0] < 0.7
