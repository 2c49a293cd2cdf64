"""Every change of the table is explained: by its rows, and by the true reason."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings

from outrider.api.reasons import DecisionReason
from outrider.tuning.decision import Decision, Kind
from outrider.tuning.messages import change, changed_rows, reason
from outrider.tuning.observe.window import Gap, GapReason, Observation
from outrider.tuning.state import BinState, TunerState
from outrider.tuning.tick_context import TickContext
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import POLICY, Engine, a_belief, a_policy, a_start, run
from tests.unit.tuning.histories import HISTORIES, PROSE, STATICS, a_pinned, after, tick

OF_PROBES_AND_FALLBACKS = {
    DecisionReason.CALIBRATION,
    DecisionReason.PROBE,
    DecisionReason.STATIC_FALLBACK,
    DecisionReason.STATIC_FALLBACK_ENDED,
}
"""Their sentence says what begins or ends, and with it every row that goes there and back."""


# The true reason


@pytest.mark.parametrize(
    ("gain", "error", "new", "found"),
    [
        (0.10, 0.06, 5, DecisionReason.BETTER_K),
        (0.10, 0.06, 1, DecisionReason.BETTER_K),
        (0.05, 0.06, 5, DecisionReason.LIKELY_BETTER),
        (0.009, 0.0, 5, DecisionReason.LIKELY_BETTER),
        (0.002, 0.06, 1, DecisionReason.SMALLER_K),
        (0.009, 0.0, 1, DecisionReason.SMALLER_K),
    ],
)
def test_better_is_only_what_is_better_beyond_min_gain_and_its_own_error(
    gain: float, error: float, new: int, found: DecisionReason
) -> None:
    assert reason(a_belief({new: gain}, error=error), 3, new, POLICY) is found


def test_a_k_that_gives_way_to_the_latency_limit_is_not_called_worse() -> None:
    belief = a_belief({3: 0.5}, steps={3: 0.05})
    limited = a_policy(inter_token_latency_limit=0.02)
    assert reason(belief, 3, 1, limited) is DecisionReason.LATENCY_LIMIT_EXCEEDED


def test_a_smaller_k_that_is_as_good_is_explained_by_its_fewer_drafts() -> None:
    said = change(a_belief({3: 0.002}, error=0.06), 5, 3, POLICY)
    assert said == "K 5 -> 3, 1 vs 1 tok/s (+0 % ± 6 %): no measurable slowdown, fewer draft tokens"


def test_a_step_down_in_doubt_says_so_in_its_decision() -> None:
    """Code turns into prose; K 3 -> 1 is +4 % ± 9 %."""
    code = run(a_start(), Engine(1.0, acceptance=0.8), ticks=24)[-1].state
    decision = run(code, Engine(1.0, table=PROSE, acceptance=0.5), ticks=2, at=120.0)[-1]
    assert (decision.kind, decision.reason) == (Kind.EXPLOIT, DecisionReason.SMALLER_K)
    assert "no measurable slowdown, fewer draft tokens" in decision.sentence


@given(HISTORIES, STATICS)
@settings(max_examples=40)
def test_no_decision_calls_a_k_better_within_its_own_error(
    history: list[list[Observation]], static: Schedule
) -> None:
    better = [
        decision
        for decision in after(history, TunerState.start(static, POLICY))
        if decision.reason is DecisionReason.BETTER_K
    ]
    assume(better)
    for decision in better:
        assert decision.expected_gain is not None
        assert decision.expected_gain > POLICY.choice.min_gain


# The rows


def test_rows_that_follow_are_explained_by_themselves_and_not_by_what_is_tried() -> None:
    one = run(a_start(), Engine(1.0), ticks=24)[-1].state
    decision = run(one, Engine(16.0), ticks=2, at=120.0)[-1]
    assert decision.probe is not None
    assert (decision.kind, decision.reason) == (Kind.EXPLOIT, DecisionReason.OTHER_BATCH_SIZES)
    assert decision.sentence == "batch 7-12: K 3 -> 0, estimated from other batch sizes"


def test_rows_that_follow_a_better_k_are_told_with_it() -> None:
    better = next(d for d in run(a_start(3), Engine(32.0), ticks=20) if d.reason is DecisionReason.BETTER_K)
    first, *others = better.sentence.split("; ")
    assert first.startswith("batch 25-48: K 3 -> ")
    assert any(row.startswith("batch 49+: K 3 -> 0, estimated") for row in others)


def test_a_row_that_was_chosen_before_is_told_with_its_numbers() -> None:
    index = POLICY.bin_of(32.0)
    state = a_start(3).with_bin(index, BinState(1, decided=True, visited=True)).composed(POLICY)
    context = TickContext([], state, policy=POLICY, now=0.0, posteriors={index: a_belief({1: 0.2})})
    rows = list(changed_rows(Schedule.constant(3), context, but=frozenset()))
    assert rows[0] == "batch 25-48: K 3 -> 1, 1 vs 1 tok/s (+22 % ± 0 %)"
    assert rows[1] == "batch 49+: K 3 -> 1, estimated from other batch sizes"


def test_rows_that_are_explained_already_are_not_told_again() -> None:
    index = POLICY.bin_of(32.0)
    state = a_start(3).with_bin(index, BinState(1, decided=True, visited=True)).composed(POLICY)
    context = TickContext([], state, policy=POLICY, now=0.0)
    rows = changed_rows(Schedule.constant(3), context, but={index})
    assert list(rows) == ["batch 49+: K 3 -> 1, estimated from other batch sizes"]


def unexplained(before: TunerState, decision: Decision) -> list[str]:
    """Changes of K that the sentence does not name."""
    ks = {
        (before.schedule.k_at(batch_size), decision.schedule.k_at(batch_size))
        for batch_size in range(1, POLICY.bins[-1] + 2)
    }
    named = (f"K {old} -> {new}" for old, new in ks if old != new)
    return [each for each in named if each not in decision.sentence]


@given(HISTORIES, STATICS)
@settings(max_examples=60)
def test_every_change_of_a_row_stands_in_the_sentence(
    history: list[list[Observation]], static: Schedule
) -> None:
    start = TunerState.start(static, POLICY)
    decisions = after(history, start)
    pairs = list(zip((start, *(d.state for d in decisions)), decisions, strict=False))
    told = [
        (before, decision)
        for before, decision in pairs
        if decision.changed and decision.reason not in OF_PROBES_AND_FALLBACKS
    ]
    assume(told)
    for before, decision in told:
        assert unexplained(before, decision) == []


# The end of a pin


def test_what_was_chosen_rules_again_once_the_static_table_had_its_time_and_that_is_said() -> None:
    decision = run(a_pinned(until=100.0), Engine(32.0), ticks=1, at=100.0)[0]
    assert (decision.kind, decision.reason) == (Kind.EXPLOIT, DecisionReason.STATIC_FALLBACK_ENDED)
    assert decision.changed
    assert decision.sentence == (
        "batch 25-48: the fallback to the static schedule expired; the tuned schedule is restored"
    )


def test_a_pin_does_not_end_while_nobody_measures() -> None:
    state = a_pinned(until=100.0)
    decision = tick(state, Gap("default/a", GapReason.STALE), at=200.0)
    assert (decision.kind, decision.schedule) == (Kind.HOLD, Schedule.constant(5))
