"""The numbers that come with a decision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outrider.tuning.decision import Reference
from outrider.tuning.report import pooled_acceptance
from tests.unit.tuning.factories import CODE, Engine, a_cell, a_policy, a_start, a_window, run, true_goodput

HOPELESS = {batch: (row[0], *(g * 0.5 for g in row[1:])) for batch, row in CODE.items()}
"""No K > 0 pays."""


def test_speedup_is_against_a_launch_without_drafter() -> None:
    """What K=0 costs in the same engines, less the tax that K=0 has there."""
    policy = a_policy(k0_tax=0.10)
    decision = run(a_start(0, policy), Engine(32.0), ticks=20, policy=policy)[-1]
    assert decision.speedup is not None
    assert decision.speedup.reference is Reference.PROBE
    true = true_goodput(32.0, 1) / true_goodput(32.0, 0)
    assert decision.speedup.ratio == pytest.approx(true / 1.10, rel=0.05)
    assert decision.speedup.low < decision.speedup.ratio < decision.speedup.high


def test_a_tax_that_nobody_knows_makes_the_speedup_unsure() -> None:
    def width(deviation: float) -> float:
        policy = a_policy(k0_tax_deviation=deviation)
        speedup = run(a_start(), Engine(1.0), ticks=20, policy=policy)[-1].speedup
        assert speedup is not None
        return speedup.high - speedup.low

    assert width(0.0) < width(0.1)


def test_a_speedup_is_known_once_its_interval_is_narrow() -> None:
    decisions = run(a_start(), Engine(32.0), ticks=20)
    first, last = decisions[0].speedup, decisions[-1].speedup
    assert first is not None
    assert last is not None
    assert (first.known, last.known) == (False, True)
    for speedup in (first, last):
        assert speedup.known == (speedup.high / speedup.ratio - 1 <= a_policy().estimation.speedup_known)


def test_a_tax_that_nobody_knows_keeps_a_speedup_from_being_known() -> None:
    policy = a_policy(k0_tax_deviation=0.15)
    speedup = run(a_start(), Engine(32.0), ticks=20, policy=policy)[-1].speedup
    assert speedup is not None
    assert not speedup.known


def test_a_speedup_says_when_k_0_was_never_measured_here() -> None:
    decision = run(a_start(), Engine(8.0), ticks=1)[0]
    assert decision.speedup is not None
    assert decision.speedup.reference is Reference.PRIOR


def test_without_k_0_among_the_candidates_there_is_no_speedup() -> None:
    policy = replace(a_policy(), candidates=(1, 2, 3, 5))
    assert run(a_start(3, policy), Engine(8.0), ticks=2, policy=policy)[-1].speedup is None


def test_acceptance_is_pooled_by_sums() -> None:
    busy, quiet = a_window(seconds=9.0, acceptance=0.9), a_window(seconds=1.0, acceptance=0.1)
    pooled = pooled_acceptance([busy, quiet])
    assert pooled is not None
    drafted = busy.draft_tokens + quiet.draft_tokens
    assert pooled.rate == pytest.approx((busy.accepted_tokens + quiet.accepted_tokens) / drafted)
    assert len(pooled.per_position) == 3


def test_a_position_counts_the_drafts_that_reach_it() -> None:
    cells = (a_cell(k=1, acceptance=0.6), a_cell(k=3, acceptance=0.6))
    pooled = pooled_acceptance([a_window(cells=cells)])
    assert pooled is not None
    assert pooled.per_position == pytest.approx((0.6, 0.36, 0.216))


def test_acceptance_is_of_the_drafts_that_were_verified() -> None:
    """Adaptive verification trimmed the others, which says nothing about them."""
    whole = a_cell(k=3, acceptance=0.6)
    trimmed = (0.0, *(0.5 * drafts for drafts in whole.drafted_per_position[1:]))
    cell = replace(whole, trimmed_per_position=trimmed)
    window = a_window(cells=(cell,))
    pooled = pooled_acceptance([window])
    assert pooled is not None
    assert pooled.rate == pytest.approx(window.accepted_tokens / (window.draft_tokens - sum(trimmed)))
    assert pooled.per_position == pytest.approx((0.6, 0.72, 0.432))


def test_where_every_draft_was_trimmed_acceptance_is_unknown() -> None:
    whole = a_cell(k=1)
    cell = replace(whole, trimmed_per_position=whole.drafted_per_position)
    window = replace(a_window(k=1, cells=(cell,)), draft_tokens=sum(whole.drafted_per_position))
    assert pooled_acceptance([window]) is None


def test_no_drafts_mean_no_acceptance() -> None:
    assert pooled_acceptance([a_window(k=0.0)]) is None


def test_estimates_of_every_visited_bin_are_reported_and_of_no_other() -> None:
    first = run(a_start(), Engine(1.0), ticks=20)[-1]
    decision = run(first.state, Engine(8.0), ticks=1, at=100.0)[0]
    assert set(decision.estimates) == {"1", "7-12"}
    assert decision.estimates["1"].settled
    assert not decision.estimates["7-12"].settled


def test_the_speedup_has_the_time_in_which_prompts_are_read_in_it() -> None:
    """Every second of writing comes with one of reading, which no drafter shortens."""
    writing = run(a_start(), Engine(1.0), ticks=24)[-1]
    reading = run(writing.state, Engine(1.0, prompts=4.0), ticks=1, at=120.0)[0]
    assert reading.num_speculative_tokens == 3
    assert writing.speedup is not None
    assert reading.speedup is not None
    assert reading.speedup.ratio == pytest.approx((writing.speedup.ratio + 1.0) / 2.0, rel=0.1)


def test_at_k_0_the_idle_drafter_slows_the_reading_of_prompts_as_well() -> None:
    """Its overhead was measured on steps with prompts, so no share of time is without it."""
    writing = run(a_start(0), Engine(32.0, table=HOPELESS), ticks=24)[-1]
    reading = run(writing.state, Engine(32.0, table=HOPELESS, prompts=32.0), ticks=1, at=120.0)[0]
    assert reading.num_speculative_tokens == 0
    assert writing.speedup is not None
    assert reading.speedup is not None
    tax = a_policy().estimation.k0_tax
    assert writing.speedup.ratio == pytest.approx(1 / (1 + tax))
    assert reading.speedup.ratio == pytest.approx(1 / (1 + tax))
    assert reading.speedup.high / reading.speedup.low == pytest.approx(
        writing.speedup.high / writing.speedup.low
    )
