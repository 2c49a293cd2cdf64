"""Whether engines should have a drafter: recent gains of drafting against a launch without one."""

from __future__ import annotations

from dataclasses import replace
from math import log1p, pi, sqrt

import pytest

from outrider.tuning.decision import Decision, Structural
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from outrider.tuning.state import Ledger
from outrider.tuning.without_drafter import drafting_gain, hoped_gain
from tests.unit.tuning.factories import CODE, POLICY, Engine, a_start, run, with_parts

RELAUNCH = POLICY.relaunch
KNOWN = IdleDrafterOverhead(log1p(0.10), 0.01**2, measured_at=0.0)


def wanted(decision: Decision) -> Structural:
    assert decision.outlook is not None
    return decision.outlook.structural


HOPELESS = {batch: (row[0], *(g * 0.5 for g in row[1:])) for batch, row in CODE.items()}


def judged(ledger: Ledger, *, overhead: IdleDrafterOverhead = KNOWN, table: object = HOPELESS) -> Structural:
    """One tick more after this ledger."""
    engine = Engine(32.0, table=table)  # type: ignore[arg-type]
    state = run(a_start(), engine, ticks=60)[-1].state
    return wanted(run(with_parts(state, ledger=ledger, overhead=overhead), engine, ticks=1, at=300.0)[-1])


def test_a_k_that_gains_less_than_the_idle_drafter_costs_sends_the_drafter_away() -> None:
    start = with_parts(a_start(), overhead=replace(KNOWN, mean=log1p(0.25)))
    # K=1 gains 10 % over K=0.
    decisions = run(start, Engine(32.0), ticks=300)
    first = next(i for i, each in enumerate(decisions) if wanted(each) is Structural.OFF)
    assert decisions[-1].num_speculative_tokens == 1
    assert wanted(decisions[-1]) is Structural.OFF
    assert 5.0 * (first + 1) >= RELAUNCH.relaunch_dwell_seconds
    assert 5.0 * first <= POLICY.safety.ledger_seconds


def test_a_loss_must_last_and_be_sure() -> None:
    lasting = Ledger(weight=0.5)
    assert judged(lasting) is Structural.OFF
    assert judged(replace(lasting, weight=0.1)) is Structural.KEEP
    assert judged(replace(lasting, drafting=0.04)) is Structural.KEEP
    assert judged(replace(lasting, drafting_error=0.2)) is Structural.KEEP
    small = replace(KNOWN, mean=log1p(0.03))
    assert judged(Ledger(weight=1.0), overhead=small) is Structural.OFF
    doubtful = replace(small, variance=POLICY.estimation.k0_tax_deviation**2)
    assert judged(Ledger(weight=1.0), overhead=doubtful) is Structural.KEEP


def test_a_present_gain_keeps_the_drafter_whatever_was_lost() -> None:
    assert judged(Ledger(weight=1.0)) is Structural.OFF
    pays = {batch: (row[0], *(row[0] * 1.5 for _ in row[1:])) for batch, row in CODE.items()}
    assert judged(Ledger(weight=1.0), table=pays) is Structural.ON


def test_the_mean_of_a_ledger_is_less_the_present_overhead() -> None:
    gain, error = drafting_gain(Ledger(drafting=0.02, drafting_error=0.01, weight=0.5), KNOWN)
    assert gain == pytest.approx(0.04 - log1p(0.10))
    assert error == pytest.approx(sqrt(0.02**2 + 0.01**2))
    assert drafting_gain(Ledger(), KNOWN) == (0.0, 0.01)


def test_that_pods_differ_counts_in_the_error() -> None:
    assert replace(KNOWN, between_pods=0.03**2).error == pytest.approx(sqrt(0.01**2 + 0.03**2))


@pytest.mark.parametrize(
    ("gain", "error", "hoped"),
    [(0.1, 0.0, 0.1), (-0.1, 0.0, 0.0), (0.0, 0.2, 0.2 / sqrt(2 * pi)), (1.0, 0.1, 1.0), (-1.0, 0.1, 0.0)],
)
def test_a_trial_gains_what_it_may_find_and_loses_nothing(gain: float, error: float, hoped: float) -> None:
    assert hoped_gain(gain, error) == pytest.approx(hoped, abs=1e-9)
