"""What is worth a slice of time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from outrider.tuning.estimate.acceptance import Profile
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.explore.probe_plan import Terms, next_slice, plan

TERMS = Terms(
    seconds=1.0,
    horizon=600.0,
    noise=0.05,
    loss_sigmas=0.0,
    untouched_loss=50.0,
    safe_loss=0.02,
    safe_sigmas=1.0,
)


def a_belief(*goodputs: float, error: float = 0.1) -> Posterior:
    """Independent beliefs about K = 0, 1, …"""
    n = len(goodputs)
    return Posterior(
        candidates=tuple(range(n)),
        batch_size=8.0,
        log_goodput=np.log(np.array(goodputs)),
        covariance=np.eye(n) * error**2,
        log_step=np.zeros(n),
    )


def ks(
    belief: Posterior, *, incumbent: int = 0, seconds: float = 5.0, loss: float = 100.0
) -> tuple[int, ...]:
    return plan(belief, incumbent, belief.candidates, TERMS, seconds=seconds, loss=loss).ks


def test_the_close_rival_is_tried_before_the_hopeless_one() -> None:
    assert ks(a_belief(100, 95, 50))[0] == 1


def test_what_is_known_well_is_not_tried() -> None:
    assert ks(a_belief(100, 90, 80, error=0.005)) == ()


def test_a_slice_that_costs_more_than_it_can_teach_is_not_run() -> None:
    hopeless, close = a_belief(100, 60), a_belief(100, 95)
    assert next_slice(hopeless, (0, 1), TERMS) is None
    assert next_slice(close, (0, 1), TERMS) is not None


def test_slices_fit_into_their_time() -> None:
    assert len(ks(a_belief(100, 100, 100), seconds=3.5)) <= 3


def test_slices_stop_where_they_would_cost_too_much() -> None:
    belief = a_belief(100, 90, 90, error=0.2)
    unbounded, bounded = ks(belief), ks(belief, loss=0.25)
    assert len(bounded) == 2 < len(unbounded)


def test_a_loss_budget_that_is_used_up_is_not_a_lack_of_questions() -> None:
    belief = a_belief(100, 90, 90, error=0.2)
    assert not plan(belief, 0, belief.candidates, TERMS, seconds=5.0, loss=0.0).saturated


def test_ignorance_is_no_reason_to_stay_for_ever() -> None:
    """What is feared is more than the whole budget; one slice of it is paid all the same."""
    belief = a_belief(100, 60, error=0.6)
    terms = replace(TERMS, loss_sigmas=1.0, untouched_loss=0.9)
    assert plan(belief, 0, (0, 1), terms, seconds=5.0, loss=1.0).ks == (1,)
    assert plan(belief, 0, (0, 1), terms, seconds=5.0, loss=0.5).ks == ()


def test_no_speculation_is_looked_at_while_it_may_be_better() -> None:
    """Nothing else is worth a slice, but K=1 is not known to be safe."""
    belief = a_belief(100, 101, error=0.03)
    terms = replace(TERMS, horizon=0.0)
    assert plan(belief, 1, (0, 1), terms, seconds=1.0, loss=0.0).ks == (0,)


def test_slices_share_their_time_between_equals() -> None:
    assert set(ks(a_belief(100, 100, 100, error=0.05))) == {1, 2}


def of_acceptance(error: float) -> Posterior:
    """K = 0, 1, 3, as good as each other; step times are known, acceptance is no more than a guess."""
    tokens = Profile((4.0,) * 3, (4.0 * (1 - error),) * 3).tokens((0, 1, 3))
    return Posterior(
        (0, 1, 3), 8.0, np.zeros(3), tokens.covariance + np.eye(3) * 1e-6, np.full(3, -4.0), tokens=tokens
    )


def test_a_slice_tells_acceptance_better_than_a_step_time() -> None:
    def left(belief: Posterior) -> float:
        return belief.after_measuring(3, 0.16**2, 1.0).error(3) / belief.error(3)

    belief = of_acceptance(0.4)
    assert left(belief) < 0.25
    assert left(replace(belief, tokens=None)) > 0.5


def test_what_nothing_but_acceptance_keeps_unknown_is_tried() -> None:
    assert ks(of_acceptance(0.4), incumbent=1, seconds=1.0) == (3,)
