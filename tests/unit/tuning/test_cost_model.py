"""The cost model that engines choose K by says what the tuner knows of step times, and what it allows."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import log

import pytest

from outrider.tuning.cost_model import materially_differs, next_cost_model
from outrider.tuning.decision import Decision
from outrider.tuning.estimate.acceptance import Profile
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from outrider_protocol.cost_model import CostModel, check
from outrider_protocol.schedule import Schedule
from tests.unit.tuning.factories import (
    CANDIDATES,
    Engine,
    a_cell,
    a_map,
    a_policy,
    a_start,
    an_exact_window,
    run,
    true_goodput,
    true_step,
    with_parts,
)

SURVIVAL = (0.5, 0.3, 0.2, 0.15, 0.1)


def the_model(decision: Decision) -> CostModel:
    model = decision.cost_model()
    assert model is not None
    return check(replace(model, revision="of a launch"))


def ratios(model: CostModel, batch: int) -> list[float]:
    return [model.seconds(k, batch) / model.seconds(0, batch) for k in CANDIDATES]


def test_a_profile_that_is_trusted_becomes_a_cost_model_at_the_first_tick() -> None:
    found = the_model(run(a_start(), Engine(8.0), ticks=1, step_times=a_map())[-1])
    truth = [true_step(8.0, k) / true_step(8.0, 0) for k in CANDIDATES]
    assert ratios(found, 8) == pytest.approx(truth, rel=0.05)


def test_what_was_measured_for_a_while_is_known_within_its_own_error() -> None:
    found = the_model(run(a_start(), Engine(8.0), ticks=60)[-1])
    for k in CANDIDATES:
        apart = log(found.seconds(k, 8) / found.seconds(0, 8) / (true_step(8.0, k) / true_step(8.0, 0)))
        assert abs(apart) < 4 * (found.error(k, 8) + found.error(0, 8)), k


def test_without_a_measurement_there_is_no_cost_model() -> None:
    assert run(a_start(), ticks=1)[-1].cost_model() is None


def test_a_profile_makes_the_first_cost_model_before_any_measurement() -> None:
    found = the_model(run(a_start(), ticks=1, step_times=a_map())[-1])
    for batch in (1, 8, 32):
        truth = [true_step(batch, k) / true_step(batch, 0) for k in CANDIDATES]
        assert ratios(found, batch) == pytest.approx(truth, rel=0.1)


def test_the_first_cost_model_allows_every_k_where_the_profile_compared_some() -> None:
    found = the_model(run(a_start(k=1), ticks=1, step_times=a_map())[-1])
    assert found.limits.k_at(8) == found.limits.k_at(64) == max(CANDIDATES)


def test_a_profile_of_small_batches_alone_makes_no_first_cost_model() -> None:
    small = StepTimeProfile(tuple(cell for cell in a_map().cells if cell.batch_size <= 4))
    assert run(a_start(), ticks=1, step_times=small)[-1].cost_model() is None


def test_a_profile_of_one_k_makes_no_first_cost_model() -> None:
    one = StepTimeProfile(tuple(cell for cell in a_map().cells if cell.k == 3))
    assert run(a_start(), ticks=1, step_times=one)[-1].cost_model() is None


def test_a_limit_on_latency_waits_for_the_first_measurement() -> None:
    policy = a_policy(inter_token_latency_limit=0.05)
    context = TickContext([], a_start(policy=policy), policy=policy, now=5.0, step_times=a_map())
    assert decide(context).cost_model() is None


def test_a_tuner_that_was_restored_gives_a_cost_model_within_the_limits_of_before() -> None:
    """No pod says how full its KV cache is, so K does not rise over the schedule."""
    state = run(a_start(k=1), Engine(8.0), ticks=60, step_times=a_map())[-1].state
    decision = decide(TickContext([], state, policy=a_policy(), now=700.0, step_times=a_map()))
    found = the_model(decision)
    assert all(found.limits.k_at(batch) <= state.schedule.k_at(batch) for batch in a_policy().bins)


def test_the_first_cost_model_holds_until_something_is_measured() -> None:
    first, second = run(a_start(), ticks=2, step_times=a_map())
    model = next_cost_model(None, first)
    assert model is not None
    assert next_cost_model(model, second) is model


def test_a_few_slow_steps_of_the_first_window_do_not_refute_the_profile() -> None:
    """An engine that chooses K drafts other K now and then, and one such step may wait for something."""
    cells = (
        a_cell(batch=8.0, k=3, goodput=true_goodput(8.0, 3), seconds=20.0),
        a_cell(batch=8.0, k=5, goodput=true_goodput(8.0, 5) / 20.0, seconds=1.0),
    )
    window = an_exact_window(*cells, at=30.0, batch=8.0)
    context = TickContext([window], a_start(), policy=a_policy(), now=30.0, step_times=a_map())
    assert the_model(decide(context)).limits.k_at(64) == max(CANDIDATES)


def test_engines_that_do_not_count_their_steps_get_none() -> None:
    window = replace(an_exact_window(batch=8.0), cells=())
    decision = decide(TickContext([window], a_start(), policy=a_policy(), now=5.0, step_times=a_map()))
    assert decision.cost_model() is None


def test_while_the_static_schedule_holds_there_is_none() -> None:
    state = with_parts(a_start(), until=1000.0)
    assert run(state, Engine(8.0), ticks=1, step_times=a_map())[-1].cost_model() is None


def test_a_mode_that_only_observes_makes_none() -> None:
    window = Engine(8.0).window(None, a_start(), seconds=5.0, at=5.0)
    decision = decide(
        TickContext([window], a_start(), policy=a_policy(), now=5.0, in_force=Schedule.constant(3))
    )
    assert decision.cost_model() is None


def test_a_batch_size_where_engines_never_were_is_bounded_by_the_static_schedule() -> None:
    found = the_model(run(a_start(k=1), Engine(8.0), ticks=60)[-1])
    assert found.limits.k_at(8) == 5
    assert found.limits.k_at(64) == 1


def test_a_full_kv_cache_keeps_engines_from_drafting_more_than_the_schedule() -> None:
    state = a_start(k=1)
    window = Engine(8.0).window(None, state, seconds=5.0, at=5.0)
    full = replace(window, kv_usage_ratio=0.99)
    decision = decide(TickContext([full], state, policy=a_policy(), now=5.0, step_times=a_map()))
    assert the_model(decision).limits.k_at(8) == decision.schedule.k_at(8)


def test_longer_contexts_cost_every_k_more() -> None:
    found = the_model(run(a_start(), Engine(8.0), ticks=60)[-1])
    short, long = (found.seconds(3, 8, 8 * tokens) for tokens in (500, 50_000))
    assert short < long


def test_step_times_that_all_k_share_choose_none_of_them() -> None:
    found = the_model(run(a_start(), Engine(8.0), ticks=1, step_times=a_map())[-1])
    slower = tuple(tuple(2 * x for x in row) for row in found.step_seconds)
    assert not materially_differs(replace(found, step_seconds=slower), found)
    steeper = tuple(tuple(x * (1 + 0.02 * i) for i, x in enumerate(row)) for row in found.step_seconds)
    assert materially_differs(replace(found, step_seconds=steeper), found)
    assert materially_differs(found, None)


def a_tick_of_an_engine_that_chooses(
    state: TunerState, at: float, survival: tuple[float, ...] = SURVIVAL, acceptance: float | None = 0.95
) -> Decision:
    """Half of the time K=5 with drafts of this acceptance, half K=0. None: K=0 for all of the time.

    survival: averaged over all texts and the last half minute.
    """
    cells = [a_cell(batch=8.0, k=0, goodput=551.0, seconds=5.0)]
    if acceptance is not None:
        cells.append(a_cell(batch=8.0, k=5, goodput=900.0, seconds=5.0, acceptance=acceptance))
    window = replace(an_exact_window(*cells, at=at, batch=8.0), survival=survival)
    return decide(TickContext([window], state, policy=a_policy(), now=at, step_times=a_map()))


def several_ticks(count: int) -> list[Decision]:
    decisions, state = [], a_start()
    for index in range(1, count + 1):
        decisions.append(a_tick_of_an_engine_that_chooses(state, 10.0 * index))
        state = decisions[-1].state
    return decisions


def test_acceptance_is_what_the_engine_averaged_over_all_texts_and_not_what_it_drafted() -> None:
    rates, _ = several_ticks(3)[-1].state.learning.profile.rates(5)
    survival, found = 1.0, []
    for rate in rates:
        survival *= rate
        found.append(survival)
    assert found == pytest.approx(SURVIVAL, rel=0.05)


def test_a_drafter_that_breaks_is_seen_although_the_engine_turns_it_off() -> None:
    state = several_ticks(20)[-1].state
    collapsed: list[bool] = []
    for index, first in enumerate((0.35, 0.2, 0.1)):
        survival = tuple(first**position for position in range(1, 6))
        decision = a_tick_of_an_engine_that_chooses(state, 210.0 + 10 * index, survival, acceptance=0.001)
        state, collapsed = decision.state, [*collapsed, decision.acceptance_collapsed]
    assert collapsed == [False, False, True]


def test_a_collapse_lasts_at_k0_until_the_mean_of_the_engine_is_back() -> None:
    state, broken, sound = several_ticks(20)[-1].state, (0.1, 0.01, 0.001, 0.0, 0.0), SURVIVAL
    ticks = [(broken, 0.001), (broken, 0.001), (broken, None), (broken, None), (sound, None)]
    collapsed: list[bool] = []
    for index, (survival, acceptance) in enumerate(ticks):
        decision = a_tick_of_an_engine_that_chooses(state, 210.0 + 10 * index, survival, acceptance)
        state, collapsed = decision.state, [*collapsed, decision.acceptance_collapsed]
    assert collapsed == [False, True, True, True, False]


def test_a_drafter_that_breaks_within_its_first_minute_is_seen_although_the_mean_falls_slowly() -> None:
    state = several_ticks(3)[-1].state
    collapsed: list[bool] = []
    for index in range(10):
        first = 0.28 + 0.22 * 0.8**index
        survival = tuple(first**position for position in range(1, 6))
        decision = a_tick_of_an_engine_that_chooses(state, 40.0 + 10 * index, survival, acceptance=0.001)
        state, collapsed = decision.state, [*collapsed, decision.acceptance_collapsed]
    assert collapsed[-1]


def history_of(first: float, *, hours: float) -> float:
    """Acceptance of the first token in the history, after hours of K=0 on a text with `first`."""
    state = several_ticks(20)[-1].state
    survival = tuple(first**position for position in range(1, 6))
    for index in range(int(hours * 360)):
        state = a_tick_of_an_engine_that_chooses(state, 210.0 + 10 * index, survival, acceptance=None).state
    return state.learning.first_accepted / state.learning.first_drafted


def test_a_text_on_which_drafts_seldom_pay_becomes_the_history_though_none_is_counted() -> None:
    assert history_of(0.2, hours=0.1) > 0.4
    assert history_of(0.2, hours=2) < 0.3


def test_a_drafter_that_broke_does_not_become_the_history_within_an_hour() -> None:
    assert history_of(0.01, hours=1) > 0.05


def test_texts_that_alternate_within_seconds_are_no_collapse() -> None:
    decisions, state = [], a_start()
    for index in range(1, 60):
        acceptance = 0.95 if index % 2 else 0.1
        decisions.append(a_tick_of_an_engine_that_chooses(state, 10.0 * index, acceptance=acceptance))
        state = decisions[-1].state
    assert not any(decision.acceptance_collapsed for decision in decisions)


def test_the_speedup_is_that_of_what_ran_and_not_of_the_schedule() -> None:
    speedup = several_ticks(12)[-1].speedup
    assert speedup is not None
    cells = [
        a_cell(batch=8.0, k=k, goodput=g, seconds=5.0, acceptance=0.95) for k, g in ((5, 900.0), (0, 551.0))
    ]
    tokens, plain = sum(c.emitted_tokens for c in cells), sum(c.requests for c in cells)
    policy = a_policy().estimation
    steps = sum(c.steps * true_step(8.0, c.num_speculative_tokens) for c in cells)
    bare = sum(c.steps for c in cells) * true_step(8.0, 0)
    expected = tokens / plain / (steps / bare) / (1 + policy.k0_tax)
    assert speedup.ratio == pytest.approx(expected, rel=0.06)


def test_an_engine_that_gains_by_its_choice_does_not_fall_back_to_the_static_schedule() -> None:
    assert not any(decision.state.fallback.active for decision in several_ticks(200))


def test_probes_are_for_step_times_alone() -> None:
    """With step times that are known there is nothing left to learn, whatever the texts do."""
    late = several_ticks(60)[30:]
    assert sum(decision.probe is not None for decision in late) <= 3


def test_acceptance_of_positions_that_are_not_drafted_is_doubted_more_and_more() -> None:
    estimation = a_policy().estimation
    profile = Profile((100.0, 50.0), (50.0, 20.0))
    variances = [profile.rates(2)[1].sum()]
    for _ in range(3):
        profile = profile.after([], estimation.undrafted_half_life_seconds, estimation)
        variances.append(profile.rates(2)[1].sum())
    assert all(later > sooner for sooner, later in pairwise(variances))
    assert sum(profile.tried) == pytest.approx(150.0 / 8)


def test_survival_that_rises_with_the_position_is_no_survival() -> None:
    rates, _ = Profile.of_survival((0.5, 0.9), drafts=1000.0).rates(2)
    assert rates[0] == pytest.approx(0.5, rel=0.01)
    assert rates[1] <= 1.0
