"""The tuning law, one behaviour at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.api.schedule import Schedule, Tier
from outrider.tuning.decision import Decision, DecisionReason, Kind
from outrider.tuning.law import decide
from outrider.tuning.policy import Policy
from outrider.tuning.state import StateError, TunerState
from outrider.tuning.window import Gap, GapReason, Observation, Window
from tests.unit.tuning.factories import CANDIDATES, a_policy, a_window, true_goodput

POLICY = a_policy()
TICK = 4.0


def a_start(k: int = 3, policy: Policy = POLICY) -> TunerState:
    return TunerState.start(Schedule.constant(k), policy)


def tick(state: TunerState, *observations: Observation, at: float, policy: Policy = POLICY) -> Decision:
    return decide(observations, state, policy=policy, now=at)


def measured(state: TunerState, *, batch: float = 8.0, at: float, **changes: float) -> Window:
    """A window of an engine that follows the wanted table and the measured throughputs."""
    k = state.schedule.k_at(batch)
    goodput = changes.pop("goodput", true_goodput(batch, k))
    return a_window(batch=batch, k=k, goodput=goodput, seconds=TICK, ended_at=at, **changes)  # type: ignore[arg-type]


def run(state: TunerState, *, batch: float = 8.0, ticks: int, at: float = 0.0) -> list[Decision]:
    decisions = []
    for i in range(1, ticks + 1):
        now = at + i * TICK
        decisions.append(tick(state, measured(state, batch=batch, at=now), at=now))
        state = decisions[-1].state
    return decisions


def a_settled(batch: float = 8.0) -> TunerState:
    return run(a_start(), batch=batch, ticks=12)[-1].state


def test_measures_the_k_in_force_and_then_tries_its_neighbour() -> None:
    decision = run(a_start(3), ticks=1)[0]
    assert decision.kind is Kind.EXPLORE
    assert decision.reason is DecisionReason.CALIBRATION
    assert decision.num_speculative_tokens == 2


def test_exploration_changes_only_the_bin_of_the_load() -> None:
    decision = run(a_start(3), ticks=1)[0]
    assert {b: decision.schedule.k_at(b) for b in (1, 6, 7, 12, 13, 64)} == {
        1: 3,
        6: 3,
        7: 2,
        12: 2,
        13: 3,
        64: 3,
    }


def test_settles_on_the_best_k_and_says_why_in_one_sentence() -> None:
    decisions = run(a_start(5), batch=1.0, ticks=12)
    settled = next(d for d in decisions if d.reason is DecisionReason.CALIBRATED)
    assert settled.num_speculative_tokens == 3
    assert settled.sentence == "batch 1: K 5 -> 3, 180 vs 151 tok/s (+19 %)"
    assert settled.expected_gain == pytest.approx(180 / 151 - 1)


def test_prefers_the_smaller_of_two_equally_good_k() -> None:
    assert a_settled(batch=8.0).schedule.k_at(8) == 0  # 551 of 566 tok/s is within the smallest gain


def test_holds_once_it_is_settled() -> None:
    last = run(a_start(), ticks=15)[-1]
    assert (last.kind, last.reason, last.changed) == (Kind.HOLD, DecisionReason.SETTLED, False)


def test_does_not_try_at_a_large_batch_what_lost_by_far_at_a_small_one() -> None:
    state = a_start(3)
    decisions = run(state, batch=1.0, ticks=12)
    decisions = run(decisions[-1].state, batch=32.0, ticks=12, at=12 * TICK)
    tried = {d.num_speculative_tokens for d in decisions if d.kind is Kind.EXPLORE}
    assert 2 not in tried
    assert decisions[-1].num_speculative_tokens == 1


def test_measuring_alone_does_not_touch_a_static_table_with_other_edges() -> None:
    static = Schedule((Tier(8, 3), Tier(None, 0)))
    decision = tick(TunerState.start(static, POLICY), a_window(batch=8.0, k=3, seconds=1.0), at=TICK)
    assert decision.reason is DecisionReason.MEASURING
    assert decision.schedule == static


def test_a_larger_unmeasured_batch_gets_no_more_than_its_measured_neighbour() -> None:
    settled = a_settled(batch=16.0).schedule
    assert settled.k_at(16) == 0
    assert settled.k_at(32) == 0
    assert settled.k_at(8) == 3


def test_the_static_table_holds_to_the_letter_until_something_is_measured() -> None:
    static = Schedule((Tier(8, 3), Tier(32, 1), Tier(None, 0)))
    assert TunerState.start(static, POLICY).schedule == static


def test_a_static_k_that_was_not_launched_becomes_the_next_smaller_candidate() -> None:
    assert TunerState.start(Schedule.constant(4), POLICY).schedule == Schedule.constant(3)


def test_a_window_across_a_load_step_is_not_attributed() -> None:
    state = a_start()
    decision = tick(state, a_window(batch=6.0, k=3, batch_low=1.0, batch_high=8.0), at=TICK)
    assert decision.reason is DecisionReason.MIXED_WINDOW
    assert decision.state.bins == {}


def test_a_window_with_other_drafts_than_the_table_says_is_not_attributed() -> None:
    decision = tick(a_start(3), a_window(batch=8.0, k=2.0), at=TICK)
    assert decision.reason is DecisionReason.MIXED_WINDOW


def test_a_trial_ends_when_the_load_leaves_its_bin() -> None:
    exploring = run(a_start(), batch=8.0, ticks=1)[0].state
    assert exploring.schedule.k_at(8) != 3
    decision = tick(exploring, measured(exploring, batch=1.0, at=2 * TICK), at=2 * TICK)
    assert decision.schedule.k_at(8) == 3


def test_a_trial_that_nobody_measures_is_given_up() -> None:
    exploring = run(a_start(), batch=8.0, ticks=1)[0].state
    blind = Gap("default/a", GapReason.STALE)
    held = tick(exploring, blind, at=TICK + POLICY.trial_timeout_seconds)
    assert (held.kind, held.changed) == (Kind.HOLD, False)
    given_up = tick(held.state, blind, at=TICK + POLICY.trial_timeout_seconds + 1)
    assert (given_up.kind, given_up.reason) == (Kind.ROLL_BACK, DecisionReason.TRIAL_STARVED)
    assert given_up.schedule == Schedule.constant(3)


def test_one_pod_without_measurements_holds_the_table_but_the_others_are_learnt() -> None:
    state = a_start()
    decision = tick(state, measured(state, at=TICK), Gap("default/b", GapReason.COUNTER_RESET, "x"), at=TICK)
    assert (decision.kind, decision.reason, decision.changed) == (
        Kind.HOLD,
        DecisionReason.METRICS_GAP,
        False,
    )
    assert decision.sentence == "1 of 2 pods not measured, default/b CounterReset: x"
    assert decision.state.bins != {}


def test_no_traffic_holds() -> None:
    idle = replace(a_window(), engine_steps=0.0, request_steps=0.0, decode_seconds=0.0, decode_tokens=0.0)
    decision = tick(a_start(), idle, at=TICK)
    assert decision.reason is DecisionReason.NO_TRAFFIC
    assert decision.batch_size is None


def test_no_pods_hold() -> None:
    decision = tick(a_start(), at=TICK)
    assert (decision.kind, decision.reason) == (Kind.HOLD, DecisionReason.METRICS_GAP)


def test_the_gain_of_a_change_is_measured_after_it() -> None:
    decisions = run(a_start(5), batch=1.0, ticks=12)
    settled = next(i for i, d in enumerate(decisions) if d.reason is DecisionReason.CALIBRATED)
    assert decisions[settled].measured_gain is None
    assert decisions[settled + 1].measured_gain == pytest.approx(180 / 151 - 1)


def test_rolls_back_a_new_k_that_turns_out_slower() -> None:
    decisions = run(a_start(5), batch=1.0, ticks=12)
    settled = next(i for i, d in enumerate(decisions, start=1) if d.reason is DecisionReason.CALIBRATED)
    state = decisions[settled - 1].state
    seen = []
    for i in range(1, 10):
        at = (settled + i) * TICK
        decision = tick(state, measured(state, batch=1.0, goodput=100, at=at), at=at)
        seen.append(decision)
        state = decision.state
    back = next(d for d in seen if d.kind is Kind.ROLL_BACK)
    assert back.reason is DecisionReason.WORSE_THAN_BEFORE
    assert back.num_speculative_tokens == 5


def test_measures_anew_when_acceptance_falls() -> None:
    state = run(a_start(), batch=1.0, ticks=40)[-1].state
    reasons = []
    for i in range(4):
        at = 200 + i * TICK
        decision = tick(state, measured(state, batch=1.0, goodput=110, acceptance=0.25, at=at), at=at)
        reasons.append(decision.reason)
        state = decision.state
    assert DecisionReason.CALIBRATION in reasons


def test_never_raises_k_while_drafts_fail_as_never_before() -> None:
    state = run(a_start(0), batch=8.0, ticks=1)[0].state  # tries K 1 next
    state = tick(state, measured(state, batch=8.0, at=8.0), at=8.0).state
    decision = tick(state, measured(state, batch=8.0, acceptance=0.05, at=12.0), at=12.0)
    assert decision.acceptance_collapsed
    assert decision.reason is DecisionReason.ACCEPTANCE_COLLAPSED
    assert decision.num_speculative_tokens == 0


def test_a_collapse_does_not_lock_k_at_0() -> None:
    state = run(a_start(0), batch=8.0, ticks=1)[0].state
    state = tick(state, measured(state, batch=8.0, at=8.0), at=8.0).state
    state = tick(state, measured(state, batch=8.0, acceptance=0.05, at=12.0), at=12.0).state
    decision = tick(state, measured(state, batch=8.0, at=16.0), at=16.0)
    assert not decision.acceptance_collapsed
    assert decision.kind is Kind.EXPLORE


def test_a_settled_k_rests_before_it_is_replaced() -> None:
    state = a_settled(batch=8.0)
    reasons = []
    for i in range(1, 40):
        at = 48 + i * TICK
        decision = tick(state, measured(state, batch=8.0, goodput=380, at=at), at=at)
        reasons.append(decision.reason)
        state = decision.state
        if decision.reason in (DecisionReason.BETTER_K, DecisionReason.CALIBRATION):
            break
    assert DecisionReason.DWELL in reasons


def test_probes_stay_within_their_share_of_time() -> None:
    decisions = run(a_start(), batch=16.0, ticks=900)
    steady = decisions[30:]
    probes = [d for d in steady if d.kind is Kind.EXPLORE]
    assert 0 < len(probes) <= POLICY.probe_share * len(steady)


def test_observing_never_wishes_for_a_trial() -> None:
    state = a_start()
    for i in range(1, 200):
        window = a_window(batch=8.0, k=3, ended_at=i * TICK)
        static = Schedule.constant(3)
        decision = decide([window], state, policy=POLICY, now=i * TICK, in_force=static)
        assert decision.kind is not Kind.EXPLORE
        state = decision.state
    assert state.schedule == Schedule.constant(3)


def test_speedup_is_measured_against_k_0_in_the_bin_of_the_load() -> None:
    last = run(a_start(), batch=1.0, ticks=15)[-1]
    assert last.speedup is not None
    assert last.speedup.ratio == pytest.approx(180 / 86)
    assert last.speedup.low < last.speedup.ratio < last.speedup.high


def test_speedup_is_unknown_until_k_0_was_measured() -> None:
    assert run(a_start(), batch=1.0, ticks=1)[0].speedup is None


def test_acceptance_is_pooled_by_sums() -> None:
    busy = a_window(pod="default/a", goodput=900, acceptance=0.5)
    slow = a_window(pod="default/b", goodput=300, acceptance=0.9)
    decision = tick(a_start(), busy, slow, at=TICK)
    expected = (busy.accepted_tokens + slow.accepted_tokens) / (busy.draft_tokens + slow.draft_tokens)
    assert decision.acceptance is not None
    assert decision.acceptance.rate == pytest.approx(expected)
    assert len(decision.acceptance.per_position) == 3


def test_estimates_of_every_visited_bin_are_reported() -> None:
    state = run(a_start(), batch=1.0, ticks=10)[-1].state
    decision = run(state, batch=8.0, ticks=3, at=40.0)[-1]
    assert set(decision.estimates) == {"1", "7-12"}
    assert decision.estimates["1"].settled
    assert not decision.estimates["7-12"].settled


# Laws


def windows(pod: str) -> st.SearchStrategy[Window]:
    return st.builds(
        a_window,
        pod=st.just(pod),
        batch=st.floats(1, 64),
        k=st.sampled_from((0.0, 1.0, 2.0, 3.0, 4.0, 5.0)),
        goodput=st.floats(1, 2000),
        seconds=st.floats(0.1, 20),
        acceptance=st.floats(0, 1),
    )


def observations() -> st.SearchStrategy[list[Observation]]:
    gap = st.builds(Gap, pod=st.just("default/a"), reason=st.sampled_from(GapReason))
    pods = [st.one_of(windows(f"default/{name}"), windows(f"default/{name}"), gap) for name in "abc"]
    return st.lists(st.one_of(*pods), max_size=3, unique_by=lambda o: o.pod)


STATICS = st.sampled_from(
    (
        Schedule.constant(3),
        Schedule((Tier(8, 3), Tier(32, 1), Tier(None, 0))),
        Schedule((Tier(5, 0), Tier(None, 5))),
    )
)
HISTORIES = st.lists(observations(), max_size=25)


def after(history: Sequence[Sequence[Observation]], start: TunerState | None = None) -> list[Decision]:
    state, decisions = start or a_start(), []
    for i, seen in enumerate(history):
        decisions.append(tick(state, *seen, at=TICK * (i + 1)))
        state = decisions[-1].state
    return decisions


@given(HISTORIES, STATICS)
@settings(max_examples=60, deadline=None)
def test_only_candidates_are_ever_wanted(history: list[list[Observation]], static: Schedule) -> None:
    for decision in after(history, TunerState.start(static, POLICY)):
        assert decision.schedule.values() <= set(CANDIDATES)


@given(HISTORIES, STATICS)
@settings(max_examples=60, deadline=None)
def test_holding_means_that_the_table_stays(history: list[list[Observation]], static: Schedule) -> None:
    for decision in after(history, TunerState.start(static, POLICY)):
        assert not (decision.kind is Kind.HOLD and decision.changed)


@given(HISTORIES, st.lists(st.sampled_from(GapReason), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_gaps_never_change_the_table(history: list[list[Observation]], reasons: list[GapReason]) -> None:
    decisions = after(history)
    state = decisions[-1].state if decisions else a_start()
    gaps = [Gap(f"default/{i}", reason) for i, reason in enumerate(reasons)]
    decision = tick(state, *gaps, at=TICK * (len(history) + 1))
    starved = decision.reason is DecisionReason.TRIAL_STARVED
    assert starved or (decision.kind is Kind.HOLD and decision.schedule == state.schedule)


@given(st.lists(st.tuples(windows("default/a"), windows("default/b"), windows("default/c")), max_size=12))
@settings(max_examples=40, deadline=None)
def test_the_order_of_pods_does_not_matter(history: list[tuple[Window, Window, Window]]) -> None:
    assert after(history) == after([seen[::-1] for seen in history])


@given(HISTORIES, HISTORIES)
@settings(max_examples=40, deadline=None)
def test_stored_and_continued_equals_continued(
    first: list[list[Observation]], second: list[list[Observation]]
) -> None:
    decisions = after(first)
    state = decisions[-1].state if decisions else a_start()
    stored = TunerState.from_wire(json.loads(json.dumps(state.to_wire())), POLICY)
    assert after(second, stored) == after(second, state)


@given(st.lists(st.floats(10, 2000), min_size=200, max_size=200))
@settings(max_examples=15, deadline=None)
def test_whatever_the_noise_settled_changes_keep_their_distance(goodputs: list[float]) -> None:
    state, changes = a_start(), 0
    for i, goodput in enumerate(goodputs):
        at = TICK * (i + 1)
        decision = tick(state, measured(state, batch=8.0, goodput=goodput, at=at), at=at)
        changes += decision.reason in (DecisionReason.BETTER_K, DecisionReason.CALIBRATED)
        state = decision.state
    assert changes <= 1 + len(goodputs) * TICK / POLICY.dwell_seconds


# The stored form


def test_a_stored_state_stays_small() -> None:
    state, at = a_start(), 0.0
    for batch in (1.0, 2.0, 5.0, 8.0, 16.0, 32.0, 60.0):
        state = run(state, batch=batch, ticks=12, at=at)[-1].state
        at += 12 * TICK
    assert len(json.dumps(state.to_wire())) < 16 * 1024


def corrupt(**changes: object) -> dict[str, object]:
    wire = json.loads(json.dumps(a_settled().to_wire()))
    wire["state"].update(changes)
    return dict(wire)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        [],
        {**corrupt(), "version": 2},
        corrupt(candidates=[0, 1]),
        corrupt(edges=[1, 2]),
        corrupt(bins={"3": {"k": 4}}),
        corrupt(bins={"99": {"k": 3}}),
        corrupt(schedule={"tiers": []}),
        corrupt(schedule={"tiers": [{"max_batch_size": None, "num_speculative_tokens": 7}]}),
        corrupt(bins={"3": {"k": 3, "measured": {"3": {"tokens": -1}}}}),
    ],
)
def test_a_state_that_cannot_be_continued_is_refused(data: object) -> None:
    with pytest.raises(StateError):
        TunerState.from_wire(data, POLICY)


# The policy


@pytest.mark.parametrize("candidates", [(), (1, 0), (-1, 2), (1, 1)])
def test_senseless_candidates_are_refused(candidates: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="candidates"):
        Policy(candidates=candidates, max_num_seqs=8)


def test_powers_of_two_lie_inside_their_bins() -> None:
    policy = a_policy(max_num_seqs=256)
    for streams in (2, 8, 16, 32, 64, 128):
        assert policy.bin_of(0.85 * streams) == policy.bin_of(streams) == policy.bin_of(1.15 * streams)


def test_the_last_bin_is_open() -> None:
    assert POLICY.label(POLICY.bin_of(10_000)) == "49+"
