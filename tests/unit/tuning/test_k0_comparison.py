"""Probes of K=0 while a launch without a drafter is allowed, and may be better or not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from outrider.api.launch import RelaunchPolicy
from outrider.api.tuning import StructuralOff
from outrider.tuning.decision import Decision
from outrider.tuning.k0_comparison import is_open
from outrider.tuning.observe.readings import read
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import (
    POLICY,
    Engine,
    a_belief,
    a_known,
    a_start,
    a_window,
    run,
    with_parts,
)

NOW = 10_000.0
MAY_RELAUNCH = replace(POLICY, removes_drafter=True)
"""An idle drafter costs 10 ± 8 %, so a gain over K=0 of about 5 % decides about the launch."""
K0_SECONDS = POLICY.relaunch.k0_seconds


def a_context(
    *, gain: float = 0.07, error: float = 0.04, policy: Policy = MAY_RELAUNCH, state: TunerState | None = None
) -> TickContext:
    """K=2 gains so much over K=0 at batch 8."""
    windows = (a_window(k=2),)
    belief = a_belief({1: -0.2, 2: gain, 3: -0.2, 5: -0.2}, error=error)
    return TickContext(
        windows,
        state or a_start(),
        policy=policy,
        now=NOW,
        readings=read(windows, Schedule.constant(2), policy),
        posteriors={policy.bin_of(8.0): belief},
    )


def test_a_gain_that_is_too_uncertain_to_judge_the_launch_is_open() -> None:
    assert is_open(a_context())


def test_where_no_launch_without_a_drafter_is_allowed_nothing_is_open() -> None:
    assert not is_open(a_context(policy=POLICY))


@pytest.mark.parametrize(
    ("gain", "error"),
    [(0.3, 0.04), (0.16, 0.04), (0.07, 0.005), (-0.1, 0.04)],
    ids=["pays for sure", "pays for most", "known well", "K=0 is best"],
)
def test_what_no_probe_of_k_0_can_change_is_not_open(gain: float, error: float) -> None:
    assert not is_open(a_context(gain=gain, error=error))


def test_k_0_has_its_time_in_each_batch_bin_and_earns_it_again_with_age() -> None:
    def known(**changes: float) -> TunerState:
        cell = a_known(**{"batch": 8.0, "k": 0, "seconds": K0_SECONDS, "at": NOW} | changes)  # type: ignore[arg-type]
        return with_parts(a_start(), known=(cell,))

    assert not is_open(a_context(state=known()))
    assert is_open(a_context(state=known(batch=32.0)))
    assert is_open(a_context(state=known(at=NOW - POLICY.estimation.half_life_seconds)))


def test_an_error_that_more_time_of_k_0_does_not_reduce_opens_nothing() -> None:
    """30 s have an error of 3 %, so the rest of the 10 % comes from elsewhere."""
    half = with_parts(a_start(), known=(a_known(batch=8.0, k=0, seconds=K0_SECONDS / 2, at=NOW),))
    assert is_open(a_context(gain=0.12, error=0.1))
    assert not is_open(a_context(gain=0.12, error=0.1, state=half))
    assert is_open(a_context(gain=0.05, error=0.1, state=half))


def test_acceptance_that_collapsed_says_nothing_of_the_launch() -> None:
    assert not is_open(a_context(state=with_parts(a_start(), collapsed=2)))


def test_without_k_0_among_the_candidates_nothing_is_open() -> None:
    context = a_context()
    assert not is_open(replace(context, policy=replace(MAY_RELAUNCH, candidates=(1, 2, 3, 5))))


@pytest.mark.parametrize("advice", [StructuralOff.RECOMMEND, StructuralOff.ALLOW])
def test_a_spec_that_asks_for_the_launch_opens_it(advice: StructuralOff) -> None:
    assert POLICY.paced(RelaunchPolicy(structural_off=advice)).removes_drafter
    assert not POLICY.paced(RelaunchPolicy()).removes_drafter


NARROW = {batch: (100.0 * batch, *(105.0 * batch - k for k in (0, 1, 2, 3))) for batch in (1, 8, 64)}
"""Drafting gains 5 % over K=0."""


def k0_probes(decisions: list[Decision]) -> float:
    """Seconds."""
    probes = [each.probe for each in decisions if each.probe is not None]
    return sum(s.seconds for p in probes for s in p.slices if s.num_speculative_tokens == 0)


@cache
def hour(policy: Policy) -> list[Decision]:
    return run(a_start(), Engine(8.0, table=NARROW), ticks=720, policy=policy)


def test_the_probes_cost_at_most_their_share_and_end() -> None:
    quiet, probing = hour(POLICY), hour(MAY_RELAUNCH)
    more = k0_probes(probing) - k0_probes(quiet)
    again = K0_SECONDS * 0.7 * 3600.0 / POLICY.estimation.half_life_seconds
    assert 0.0 < more <= K0_SECONDS + again
    share, first = POLICY.relaunch.canary_share, probing[:60]
    assert k0_probes(first) <= share * 5.0 * 60 + POLICY.exploration.calibration_seconds


def test_the_probes_make_the_gain_over_k_0_more_certain() -> None:
    def error(decision: Decision) -> float:
        assert decision.outlook is not None
        posterior = decision.outlook.posterior
        return posterior.gain(posterior.best(posterior.candidates), 0)[1]

    assert error(hour(MAY_RELAUNCH)[119]) < error(hour(POLICY)[119])


def test_the_probes_are_no_losses_of_tuning() -> None:
    quiet, probing = hour(POLICY)[59], hour(MAY_RELAUNCH)[59]
    ledgers = [each.state.fallback.ledger for each in (quiet, probing)]
    assert ledgers[1].gain == pytest.approx(ledgers[0].gain, abs=0.002)
    assert ledgers[1].weight == pytest.approx(ledgers[0].weight)


def test_where_nothing_may_be_probed_k_0_has_no_probes_either() -> None:
    assert k0_probes(hour(MAY_RELAUNCH.observing())) == 0.0
