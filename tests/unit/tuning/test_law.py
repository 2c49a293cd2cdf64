"""The tuning law, one behaviour at a time."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from outrider.api.reasons import DecisionReason
from outrider.tuning.decision import Kind, Structural
from outrider.tuning.observe.window import Gap, GapReason, Observation, Window
from outrider.tuning.policy import Policy
from outrider.tuning.state import Ledger, ProbeCost, TunerState
from outrider.tuning.stored import from_wire, to_wire
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from outrider_protocol.schedule import Row, Schedule
from tests.unit.tuning.factories import (
    CANDIDATES,
    CODE,
    POLICY,
    Engine,
    a_cell,
    a_map,
    a_policy,
    a_start,
    a_window,
    an_exact_window,
    run,
    true_goodput,
    true_step,
    with_parts,
)
from tests.unit.tuning.histories import (
    HISTORIES,
    PROSE,
    STATICS,
    TICK,
    a_settled,
    after,
    chosen,
    tick,
    windows,
)

LOSS_BUDGET = POLICY.safety.loss_budget * POLICY.safety.loss_seconds
"""Seconds per pod."""

# Choosing


@pytest.mark.parametrize(("batch", "best"), [(1.0, {3}), (8.0, {0, 1, 3}), (32.0, {1})])
def test_ends_on_the_best_k(batch: float, best: set[int]) -> None:
    assert chosen(run(a_start(5), Engine(batch), ticks=40)[-1], batch) in best


def test_a_new_batch_size_is_calibrated_by_slices_on_one_pod() -> None:
    decision = run(a_start(3), Engine(8.0), ticks=1)[0]
    assert (decision.kind, decision.reason) == (Kind.EXPLORE, DecisionReason.CALIBRATION)
    assert decision.probe is not None
    assert (decision.probe.pod, decision.probe.low, decision.probe.high) == ("default/a", 7, 12)
    assert decision.schedule == Schedule.constant(3)


def test_slices_end_before_the_next_tick() -> None:
    for decision in run(a_start(), Engine(8.0), ticks=30)[1:]:
        if decision.probe is not None:
            assert sum(s.seconds for s in decision.probe.slices) <= TICK


@pytest.mark.parametrize("away", [TICK, 60.0, 3600.0])
def test_after_a_pause_slices_end_before_the_next_tick_as_well(away: float) -> None:
    engine, before = Engine(8.0), run(a_start(), Engine(8.0), ticks=3)[-1]
    now = (before.state.at or 0.0) + away
    window = engine.window(None, before.state, seconds=TICK, at=now)
    decision = decide(TickContext((window,), before.state, policy=POLICY, now=now, tick_seconds=TICK))
    assert decision.probe is not None
    assert sum(s.seconds for s in decision.probe.slices) <= TICK


def test_calibration_ends_and_says_so() -> None:
    reasons = [d.reason for d in run(a_start(), Engine(1.0), ticks=20)]
    assert DecisionReason.CALIBRATED in reasons
    assert reasons[-1] is DecisionReason.SETTLED


def test_a_change_says_why_in_one_sentence_with_the_numbers() -> None:
    changes = [d for d in run(a_start(5), Engine(32.0), ticks=20) if d.reason is DecisionReason.BETTER_K]
    assert changes[0].sentence.startswith("batch 25-48: K 5 -> ")
    assert "tok/s (+" in changes[0].sentence
    assert changes[0].expected_gain is not None


def test_the_gain_of_a_change_is_measured_after_it() -> None:
    gains = [d.outlook.measured_gain if d.outlook else None for d in run(a_start(5), Engine(32.0), ticks=8)]
    assert gains[0] is None
    assert gains[-1] is not None


def test_a_k_that_turns_out_slower_goes_back_at_once() -> None:
    state = a_settled(32.0).state
    index = POLICY.bin_of(32.0)
    changed = replace(state.bins[index].changed_to(5, 100.0, settled=True), replaced=1)
    state = state.with_bin(index, changed).composed(POLICY)
    decision = run(state, Engine(32.0), ticks=1, at=100.0)[0]
    assert (decision.kind, decision.reason) == (Kind.ROLL_BACK, DecisionReason.WORSE_THAN_BEFORE)
    assert chosen(decision, 32.0) == 1


def test_what_is_learnt_at_some_batch_sizes_guides_the_unseen_ones() -> None:
    state = run(a_start(5), Engine(16.0), ticks=20)[-1].state
    decision = run(state, Engine(32.0), ticks=12, at=100.0)[-1]
    assert chosen(decision, 64.0) < 5


def test_a_bin_without_a_choice_keeps_the_static_table_to_the_row() -> None:
    static = Schedule((Row(9, 3), Row(None, 0)))
    first = decide(
        TickContext(
            [an_exact_window(a_cell(batch=8.0, k=3))],
            TunerState.start(static, POLICY),
            policy=POLICY,
            now=5.0,
        )
    )
    assert first.schedule == static


def test_a_larger_batch_without_a_choice_gets_no_more_than_its_smaller_neighbour() -> None:
    decision = a_settled(8.0, k=5)
    assert chosen(decision, 60.0) <= max(chosen(decision, 8.0), chosen(decision, 20.0))


def test_a_static_k_that_was_not_launched_becomes_the_next_smaller_candidate() -> None:
    assert TunerState.start(Schedule.constant(4), POLICY).schedule == Schedule.constant(3)


def test_k_that_breaks_the_latency_objective_is_not_used() -> None:
    def step(k: int) -> float:
        return 32 * (1 + sum(0.6**j for j in range(1, k + 1))) / true_goodput(32.0, k)

    limit = 1.02 * step(0)
    policy = a_policy(inter_token_latency_limit=limit)
    assert all(step(k) > limit for k in (1, 2, 3, 5))
    assert chosen(run(a_start(5), Engine(32.0), ticks=20, policy=policy)[-1], 32.0) == 0


# Trying


def test_probes_stay_within_their_share_of_time() -> None:
    late = run(a_start(), Engine(8.0), ticks=720)[60:]
    probed = sum(s.seconds for d in late if d.probe for s in d.probe.slices)
    assert probed <= 0.03 * len(late) * TICK + POLICY.exploration.probe_burst_seconds


def test_slices_of_a_new_bin_stay_within_their_time() -> None:
    early = [d for d in run(a_start(), Engine(8.0), ticks=40) if d.reason is DecisionReason.CALIBRATION]
    assert (
        sum(s.seconds for d in early if d.probe for s in d.probe.slices)
        <= POLICY.exploration.calibration_seconds
    )


def test_pods_take_turns() -> None:
    pods = [Engine(8.0, pod="default/a"), Engine(8.0, pod="default/b")]
    probes = [d.probe.pod for d in run(a_start(), *pods, ticks=6) if d.probe]
    assert set(probes) == {"default/a", "default/b"}


def test_nothing_is_tried_while_requests_wait() -> None:
    decisions = run(a_start(), Engine(8.0, waiting=3.0), ticks=10)
    assert not [d for d in decisions if d.probe]
    assert decisions[-1].reason is DecisionReason.REQUESTS_QUEUED


def test_engines_that_do_not_count_by_k_hold_and_are_not_probed() -> None:
    decision = tick(a_start(3), a_window(k=3.0, ended_at=5.0), at=5.0)
    assert (decision.kind, decision.reason) == (Kind.HOLD, DecisionReason.METRICS_GAP)
    assert decision.sentence == "batch 7-12: the engines do not count steps by K, so no probe starts"
    assert decision.state.bins[POLICY.bin_of(8.0)].credit == POLICY.exploration.calibration_seconds


def test_a_loss_budget_that_is_used_up_is_so_for_all_pods() -> None:
    pods = [Engine(8.0, pod="default/a"), Engine(8.0, pod="default/b")]
    dear = (ProbeCost(POLICY.bin_of(8.0), 5, seconds=100.0, loss=LOSS_BUDGET),)
    fresh, poor = (run(with_parts(a_start(3), probes=each), *pods, ticks=1)[0].probe for each in ((), dear))
    assert fresh is not None
    assert poor is not None
    assert {s.num_speculative_tokens for s in fresh.slices} > {s.num_speculative_tokens for s in poor.slices}
    assert {s.num_speculative_tokens for s in poor.slices} == {0}


@pytest.mark.parametrize(("gain", "refunded"), [(1.5, True), (0.6, False)])
def test_a_probe_that_was_feared_and_proves_good_frees_the_budget(gain: float, refunded: bool) -> None:
    engine = Engine(8.0, table={b: (row[0], *(row[0] * gain,) * 4) for b, row in CODE.items()})
    learnt = run(a_start(1), engine, ticks=10)[-1].state
    dear = with_parts(learnt, probes=(ProbeCost(POLICY.bin_of(8.0), 1, seconds=5.0, loss=LOSS_BUDGET),))
    found = run(dear, engine, ticks=1)[-1].state.budget.probes
    losses = {each.k: each.loss for each in found}
    assert (losses[1] < 0.1 * LOSS_BUDGET) is refunded


def test_a_static_k_of_0_is_left_where_speculation_pays_even_at_a_large_batch() -> None:
    """Against what is expected of large batches: the prior alone must not keep K at 0."""
    generous = {b: (row[0], *(row[0] * x for x in (1.7, 2.1, 2.3, 2.2))) for b, row in CODE.items()}
    assert chosen(run(a_start(0), Engine(37.0, table=generous), ticks=20)[-1], 37.0) >= 2


def test_observing_never_tries_anything() -> None:
    state = a_start(3)
    for i in range(1, 20):
        window = an_exact_window(a_cell(k=3, seconds=TICK), at=i * TICK)
        decision = decide(
            TickContext([window], state, policy=POLICY, now=i * TICK, in_force=Schedule.constant(3))
        )
        assert decision.probe is None
        state = decision.state


def test_the_speedup_of_observing_is_that_of_the_table_in_force() -> None:
    """Here K=0 would be chosen: that it is no slower than K=0 says nothing of the engines."""
    losing = {b: (row[0], *(row[0] * x for x in (0.8, 0.7, 0.6, 0.5))) for b, row in CODE.items()}
    known = run(a_start(0), Engine(8.0, table=losing), ticks=40)[-1].state
    window = an_exact_window(
        a_cell(batch=8.0, k=3, goodput=Engine(8.0, table=losing).goodput(3), seconds=TICK), at=205.0
    )
    decision = decide(TickContext([window], known, policy=POLICY, now=205.0, in_force=Schedule.constant(3)))
    assert (chosen(decision), decision.speedup and decision.speedup.high < 0.9) == (0, True)


# Following


def test_other_text_is_answered_within_half_a_minute() -> None:
    state = run(a_start(), Engine(32.0), ticks=20)[-1].state
    prose = Engine(32.0, table=PROSE, acceptance=0.3)
    assert chosen(run(state, prose, ticks=6, at=100.0)[-1], 32.0) == 0


def test_an_engine_that_became_slower_for_long_drafts_is_measured_anew() -> None:
    state = run(a_start(), Engine(1.0), ticks=20)[-1].state
    slower = {b: (row[0], row[1], row[2], row[3] / 2, row[4] / 2) for b, row in CODE.items()}
    assert chosen(run(state, Engine(1.0, table=slower), ticks=24, at=100.0)[-1], 1.0) == 1


def test_a_slow_pod_does_not_bias_the_choice() -> None:
    pods = [Engine(8.0, pod="default/a"), Engine(8.0, pace=2.0, pod="default/b")]
    decision = run(a_start(5), *pods, ticks=40)[-1]
    paces = decision.state.learning.pods
    assert paces["default/b"].mean - paces["default/a"].mean == pytest.approx(0.69, abs=0.1)
    assert chosen(decision) in {0, 1, 3}


def test_one_pod_without_measurements_holds_the_table_but_the_others_are_learnt() -> None:
    window = an_exact_window(a_cell(), at=TICK, pod="default/a")
    decision = tick(a_start(), window, Gap("default/b", GapReason.STALE), at=TICK)
    assert (decision.kind, decision.reason) == (Kind.HOLD, DecisionReason.METRICS_GAP)
    assert [(k.bin, k.k) for k in decision.state.learning.known] == [(POLICY.bin_of(8.0), 3)]


def test_a_collapse_of_acceptance_is_an_alarm_and_not_a_trap() -> None:
    state = run(a_start(), Engine(1.0, acceptance=0.9), ticks=20)[-1].state
    broken = run(state, Engine(1.0, acceptance=0.02), ticks=3, at=100.0)
    assert any(d.acceptance_collapsed for d in broken)
    healed = run(broken[-1].state, Engine(1.0, acceptance=0.9), ticks=2, at=115.0)
    assert not healed[-1].acceptance_collapsed


def test_drafts_that_all_fail_are_ended_although_no_speculation_was_measured_too_slow() -> None:
    """Its few steps were measured while the node was busy. So K=0 looks no better than drafts that fail."""
    busy = {b: (row[0] / 2, *row[1:]) for b, row in CODE.items()}
    state = run(a_start(0), Engine(8.0, table=busy, acceptance=0.7), ticks=3)[-1].state
    failing = {
        b: (row[0], *(1.02 * b / true_step(b, k, 0.7) for k in CANDIDATES[1:])) for b, row in CODE.items()
    }
    broken = run(state, Engine(8.0, table=failing, acceptance=0.02), ticks=8, at=15.0)
    assert broken[0].state.schedule.k_at(8) > 0
    assert chosen(broken[-1], 8.0) == 0


# The ledger


def test_where_tuning_lost_the_static_table_comes_back_for_a_while() -> None:
    state = with_parts(a_settled(8.0, k=3).state, ledger=Ledger(gain=-0.05, weight=0.6))
    pinned = run(state, Engine(8.0), ticks=1, at=100.0)[0]
    assert (pinned.kind, pinned.reason) == (Kind.ROLL_BACK, DecisionReason.STATIC_FALLBACK)
    assert pinned.schedule == Schedule.constant(3)
    later = run(pinned.state, Engine(8.0), ticks=1, at=200.0)[0]
    assert (later.kind, later.reason) == (Kind.HOLD, DecisionReason.STATIC_FALLBACK)
    after = run(pinned.state, Engine(8.0), ticks=1, at=110.0 + POLICY.safety.ledger_seconds)[0]
    assert after.reason is not DecisionReason.STATIC_FALLBACK


def test_tuning_that_pays_is_not_pinned() -> None:
    assert DecisionReason.STATIC_FALLBACK not in [d.reason for d in run(a_start(5), Engine(32.0), ticks=400)]


def test_a_drafter_that_never_pays_is_recommended_away() -> None:
    hopeless = {b: (row[0], *(g * 0.5 for g in row[1:])) for b, row in CODE.items()}
    decision = run(a_start(3), Engine(32.0, table=hopeless), ticks=500)[-1]
    assert chosen(decision, 32.0) == 0
    assert decision.outlook is not None
    assert decision.outlook.structural is Structural.OFF


def test_a_drafter_that_pays_is_kept_or_asked_back() -> None:
    outlook = a_settled(1.0).outlook
    assert outlook is not None
    assert outlook.structural is Structural.ON


# Laws


@given(HISTORIES, STATICS)
@settings(max_examples=60)
def test_only_candidates_are_ever_wanted(history: list[list[Observation]], static: Schedule) -> None:
    for decision in after(history, TunerState.start(static, POLICY)):
        probed = {s.num_speculative_tokens for s in decision.probe.slices} if decision.probe else set()
        assert decision.schedule.values() | probed <= set(CANDIDATES)


@given(HISTORIES, STATICS)
@settings(max_examples=60)
def test_holding_means_that_the_table_stays(history: list[list[Observation]], static: Schedule) -> None:
    for decision in after(history, TunerState.start(static, POLICY)):
        assert not (decision.kind is Kind.HOLD and decision.changed)
        assert decision.probe is None or decision.kind is not Kind.HOLD


@given(HISTORIES, st.lists(st.sampled_from(GapReason), min_size=1, max_size=3))
@settings(max_examples=60)
def test_gaps_never_change_the_table(history: list[list[Observation]], reasons: list[GapReason]) -> None:
    decisions = after(history)
    state = decisions[-1].state if decisions else a_start()
    gaps = [Gap(f"default/{i}", reason) for i, reason in enumerate(reasons)]
    decision = tick(state, *gaps, at=TICK * (len(history) + 1))
    assert decision.kind is Kind.HOLD
    assert decision.schedule == state.schedule


@given(st.lists(st.tuples(windows("default/a"), windows("default/b"), windows("default/c")), max_size=8))
@settings(max_examples=30)
def test_the_order_of_pods_does_not_matter(history: list[tuple[Window, Window, Window]]) -> None:
    assert after(history) == after([seen[::-1] for seen in history])


@given(HISTORIES, HISTORIES)
@settings(max_examples=30)
def test_stored_and_continued_equals_continued(
    first: list[list[Observation]], second: list[list[Observation]]
) -> None:
    decisions = after(first)
    state = decisions[-1].state if decisions else a_start()
    stored = from_wire(json.loads(json.dumps(to_wire(state))), POLICY)
    assert after(second, stored) == after(second, state)


RESTLESS = a_policy(min_gain=0.0, confidence_sigmas=0.0, drift_threshold=1e9, switches_per_hour=1e9)
"""Believes in every difference, so that only the rest after a change keeps it from the next one."""


@given(st.lists(st.floats(400, 700), min_size=40, max_size=40))
@settings(max_examples=10)
def test_whatever_the_noise_settled_changes_keep_their_distance(goodputs: list[float]) -> None:
    state, changes = a_settled(8.0).state, list[float]()
    for i, goodput in enumerate(goodputs, 1):
        at = 100.0 + TICK * i
        window = an_exact_window(a_cell(k=state.schedule.k_at(8), goodput=goodput, seconds=TICK), at=at)
        decision = tick(state, window, at=at, policy=RESTLESS)
        bin_state = decision.state.bins[POLICY.bin_of(8.0)]
        if decision.reason is DecisionReason.BETTER_K and bin_state.settled_at == at:
            changes.append(at)
        state = decision.state
    assume(len(changes) > 1)
    assert all(b - a >= POLICY.choice.dwell_seconds for a, b in pairwise(changes))


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


def test_a_pod_that_was_replaced_is_forgotten() -> None:
    old = [Engine(8.0, pod="default/a"), Engine(8.0, pod="default/b")]
    new = [Engine(8.0, pod="default/a"), Engine(8.0, pod="default/c")]
    state = run(run(a_start(), *old, ticks=3)[-1].state, *new, ticks=1, at=300.0)[-1].state
    assert set(state.learning.pods) == {"default/a", "default/c"}


def test_a_pod_that_is_silent_for_a_while_keeps_its_pace() -> None:
    both = [Engine(8.0, pod="default/a"), Engine(8.0, pace=2.0, pod="default/b")]
    state = run(a_start(), *both, ticks=3)[-1].state
    assert set(run(state, both[0], ticks=1, at=300.0)[-1].state.learning.pods) == {"default/a", "default/b"}


def test_a_queue_that_lasts_does_not_keep_the_best_k_away_for_ever() -> None:
    """32 streams with K=0 in force, where K=1 is best, and always some requests that wait."""
    decisions = run(a_start(0), Engine(32.0, waiting=5.0), ticks=36)
    early = [d for d in decisions if d.state.at is not None and d.state.at < POLICY.safety.queue_seconds]
    assert all(d.probe is None for d in early)
    assert decisions[-1].schedule.k_at(32) == 1


def test_a_handful_of_steps_that_took_far_too_long_spoil_no_map() -> None:
    """Three steps of a larger batch, each twenty times as long as it should be, look like seconds of work."""
    before = run(a_start(), Engine(8.0), ticks=12, step_times=a_map())[-1].state
    step = true_step(16.0, 2)
    hiccup = replace(
        a_cell(batch=16.0, k=2),
        steps=3.0,
        requests=48.0,
        emitted_tokens=60.0,
        context_tokens=48.0 * 500.0,
        step_seconds=60.0 * step,
    )
    window = an_exact_window(a_cell(batch=8.0, k=3), hiccup, at=65.0, batch=8.0)
    after = decide(TickContext([window], before, policy=a_policy(), now=65.0, step_times=a_map())).state
    assert {k.key for k in after.learning.known} == {k.key for k in before.learning.known}
    assert after.learning.noise(a_policy().estimation) == pytest.approx(
        before.learning.noise(a_policy().estimation), rel=0.05
    )
