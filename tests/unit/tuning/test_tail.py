"""The 90th percentile of the time between two outputs, and which K keep a limit on it."""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf, log, sqrt

import pytest

from outrider.api.reasons import DecisionReason
from outrider.tuning.choose.choice import keeping, usable, worth_trying
from outrider.tuning.decision import Decision
from outrider.tuning.estimate.latency import learn_latency
from outrider.tuning.estimate.latency_percentile import LatencyPercentile
from outrider.tuning.estimate.posterior import Posterior
from outrider.tuning.observe.latencies import Latencies
from outrider.tuning.observe.readings import read
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from tests.unit.tuning.factories import (
    CANDIDATES,
    Engine,
    a_belief,
    a_cell,
    a_map,
    a_policy,
    a_start,
    a_window,
    an_exact_window,
    true_step,
    with_parts,
)

SAFETY = a_policy().safety
EDGES = tuple(0.002 * 1.1**i for i in range(60))
FEW, MANY = 8.0, 24.0


def a_histogram(*gaps: tuple[float, float]) -> Latencies:
    """Seconds and how many of them."""
    counts = [0.0] * (len(EDGES) + 1)
    for seconds, count in gaps:
        counts[sum(edge < seconds for edge in EDGES)] += count
    return Latencies(EDGES, tuple(counts))


def judged(policy: Policy, *, tail: float, batch: float = 1.0, ticks: int = 12) -> list[Decision]:
    """An engine whose slowest gaps are by `tail` longer than its mean step; all K are known."""
    policy, known = policy.changed(calibration_seconds=0.0, probe_share=0.0), a_map()
    state, engine, decision, found = a_start(3, policy), Engine(batch), None, []
    for i in range(1, ticks + 1):
        window = engine.window(decision, state, seconds=5.0, at=5.0 * i)
        k = state.schedule.k_at(round(batch))
        gap = true_step(batch, k) * exp(tail)
        window = replace(window, latencies=a_histogram((0.8 * gap, 89.0), (gap, 11.0)))
        decision = decide(TickContext([window], state, policy=policy, now=5.0 * i, step_times=known))
        state = decision.state
        found.append(decision)
    return found


# A percentile


def test_a_limit_is_kept_with_the_probability_that_the_percentile_is_below_it() -> None:
    tail = LatencyPercentile(0.2, 0.1**2)
    at = log(0.02) + 0.2
    assert tail.keeps(exp(at), log(0.02), 0.0, FEW) == pytest.approx(0.5, abs=0.01)
    assert tail.keeps(exp(at + 0.128), log(0.02), 0.0, FEW) == pytest.approx(0.9, abs=0.01)
    assert tail.keeps(exp(at + 0.128), log(0.02), 0.1**2, FEW) == pytest.approx(0.82, abs=0.01)


def test_the_percentile_is_a_step_with_a_prompt_once_a_tenth_of_steps_read_one() -> None:
    tail = LatencyPercentile(0.0, 0.0, prompts=0.006, seconds=0.1)
    assert exp(tail.percentile(log(0.02), 0.0, FEW)[0]) == pytest.approx(0.02, rel=0.01)
    assert exp(tail.percentile(log(0.02), 0.0, MANY)[0]) == pytest.approx(0.12, rel=0.01)
    assert tail.keeps(0.03, log(0.02), 0.0, FEW) > 0.95
    assert tail.keeps(0.03, log(0.02), 0.0, MANY) < 0.1


def test_what_was_told_is_forgotten_towards_not_knowing() -> None:
    told = LatencyPercentile.prior(SAFETY).with_prompts(0.0, 0.0, 100.0, SAFETY).after(0.5, 0.5, 0.01)
    later = told.aged(100.0 + SAFETY.latency_tail_seconds, SAFETY)
    assert told.variance < later.variance < SAFETY.latency_tail_deviation**2
    assert later.mean == told.mean
    assert told.aged(1e6, SAFETY).variance == pytest.approx(SAFETY.latency_tail_deviation**2)


def test_bounds_that_hold_what_is_believed_draw_it_nowhere() -> None:
    believed = LatencyPercentile(0.2, 0.1**2)
    assert believed.after(-inf, inf, 0.05) == believed
    assert believed.after(0.0, 1.0, 0.05) == believed
    closer = believed.after(0.15, 0.25, 0.05)
    assert closer.mean == 0.2
    assert sqrt(closer.variance) == pytest.approx(0.0577, abs=1e-3)


def test_bounds_beyond_what_is_believed_draw_it_to_the_nearer_one() -> None:
    assert LatencyPercentile(0.2, 0.1**2).after(0.5, 1.0, 0.05).mean == pytest.approx(0.44)
    assert LatencyPercentile(0.2, 0.1**2).after(-inf, 0.0, 0.05).mean == pytest.approx(0.04)


# Which K keep it


def with_tail(belief: Posterior, tail: LatencyPercentile) -> Posterior:
    return replace(belief, tail=tail)


STEPS = {0: 0.010, 1: 0.020, 2: 0.030, 3: 0.040, 5: 0.050}


def test_a_k_keeps_the_limit_if_it_breaks_it_with_no_more_than_the_risk() -> None:
    policy = a_policy(inter_token_latency_limit=0.031)
    belief = with_tail(a_belief({}, steps=STEPS), LatencyPercentile(0.0, 0.1**2))
    assert keeping(belief, policy) == (0, 1)
    assert keeping(belief, policy.changed(latency_risk=0.5)) == (0, 1, 2)


def test_what_rather_keeps_the_limit_than_not_may_be_tried() -> None:
    policy = a_policy(inter_token_latency_limit=0.031)
    belief = with_tail(a_belief({}, steps=STEPS), LatencyPercentile(0.0, 0.1**2))
    assert usable(belief, policy) == (0, 1)
    assert worth_trying(belief, policy) == (0, 1, 2)


def test_where_none_keeps_it_the_shortest_step_is_left() -> None:
    policy = a_policy(inter_token_latency_limit=0.001)
    belief = a_belief({}, steps=STEPS)
    assert (keeping(belief, policy), usable(belief, policy)) == ((), (0,))


def test_without_a_limit_a_tail_is_nobodys_business() -> None:
    assert keeping(with_tail(a_belief({}), LatencyPercentile(9.0, 9.0)), a_policy()) == CANDIDATES
    assert decide(TickContext([], a_start(), policy=a_policy(), now=5.0)).state.learning.tail is None


# The law


@pytest.mark.parametrize("tail", [0.05, 0.3])
def test_the_tail_is_learnt_from_the_histogram(tail: float) -> None:
    decisions = judged(a_policy(inter_token_latency_limit=1.0), tail=tail)
    found = decisions[-1].state.learning.tail
    assert found is not None
    assert found.mean == pytest.approx(tail, abs=0.1)
    assert sqrt(found.variance) < 0.7 * SAFETY.latency_tail_deviation


def test_slices_of_a_longer_draft_are_no_tail() -> None:
    policy, state = a_policy(inter_token_latency_limit=1.0), a_start(3)
    cells = [
        a_cell(batch=1.0, k=k, goodput=Engine(1.0).goodput(k), seconds=s) for k, s in ((3, 3.5), (5, 1.5))
    ]
    gaps = a_histogram(*((true_step(1.0, cell.num_speculative_tokens), cell.requests) for cell in cells))
    for i in range(1, 13):
        window = replace(an_exact_window(*cells, at=5.0 * i, batch=1.0), latencies=gaps)
        state = decide(TickContext([window], state, policy=policy, now=5.0 * i, step_times=a_map())).state
    assert state.learning.tail is not None
    assert abs(state.learning.tail.mean) < 0.1 < log(true_step(1.0, 5) / true_step(1.0, 3))


def test_steps_that_read_a_prompt_are_no_tail() -> None:
    policy, window = a_policy(inter_token_latency_limit=1.0), a_window(batch=8.0, k=3.0, ended_at=5.0)
    belief = a_belief({}, steps=dict.fromkeys(CANDIDATES, 0.02))
    reading = LatencyPercentile(0.0, 0.1**2, prompts=0.3 / belief.tokens_of(3), seconds=0.08, at=5.0)
    state = with_parts(a_start(3, policy), tail=reading)
    seen = [replace(window, latencies=a_histogram((0.02, 70.0), (0.1, 30.0)))]
    believed = {policy.bin_of(8.0): replace(belief, tail=reading)}
    readings = read(seen, state.schedule, policy)
    context = TickContext(seen, state, policy=policy, now=5.0, readings=readings, posteriors=believed)
    learnt = learn_latency(context).state.learning.tail
    assert learnt is not None
    assert abs(learnt.mean) < 0.1


def test_a_longer_tail_leaves_smaller_drafts() -> None:
    policy = a_policy(inter_token_latency_limit=1.25 * true_step(1.0, 3))
    assert judged(policy, tail=0.02)[-1].num_speculative_tokens == 3
    assert judged(policy, tail=0.25)[-1].num_speculative_tokens == 1


def test_a_k_that_breaks_the_limit_goes_with_the_numbers_that_tell_why() -> None:
    policy = a_policy(inter_token_latency_limit=1.25 * true_step(1.0, 3))
    changes = [d for d in judged(policy, tail=0.4) if d.reason is DecisionReason.LATENCY_LIMIT_EXCEEDED]
    assert changes
    assert f"above {1250 * true_step(1.0, 3):.0f} ms" in changes[0].sentence


def test_where_no_k_keeps_the_limit_the_shortest_step_rules_and_that_is_told() -> None:
    decision = judged(a_policy(inter_token_latency_limit=0.5 * true_step(1.0, 0)), tail=0.1)[-1]
    assert decision.reason is DecisionReason.LATENCY_LIMIT_REACHED
    assert decision.num_speculative_tokens == min(CANDIDATES, key=lambda k: true_step(1.0, k))
    assert "no K keeps the limit" in decision.sentence


def test_a_broken_limit_waits_neither_for_rest_nor_for_the_hour() -> None:
    policy = a_policy(inter_token_latency_limit=1.25 * true_step(1.0, 3))
    state = judged(policy, tail=0.02)[-1].state
    index = policy.bin_of(1.0)
    tired = replace(state.bins[index], settled_at=60.0, changed_at=60.0, switches=99.0)
    slow = a_histogram((2.0 * true_step(1.0, 3), 100.0))
    window = replace(Engine(1.0).window(None, state, seconds=5.0, at=65.0), latencies=slow)
    decision = decide(TickContext([window], state.with_bin(index, tired), policy=policy, now=65.0))
    assert decision.reason is DecisionReason.LATENCY_LIMIT_EXCEEDED


def test_a_state_without_a_tail_goes_on() -> None:
    state = judged(a_policy(inter_token_latency_limit=1.0), tail=0.1, ticks=2)[-1].state
    assert isinstance(state, TunerState)
    quiet = Engine(1.0).window(None, state, seconds=5.0, at=400.0)
    assert (
        decide(
            TickContext([quiet], state, policy=a_policy(inter_token_latency_limit=1.0), now=400.0)
        ).state.learning.tail
        is not None
    )
