"""The fast loop: which K follows from the drafts of late, and what holds whatever they are."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider_protocol.fast_loop import ChangeReason, FastLoop
from outrider_protocol.schedule import Row
from tests.unit.protocol.engines import KS, AnEngine, a_model, seconds

GOOD, BAD = 0.9, 0.05


def test_k_of_the_schedule_stays_until_drafts_were_counted() -> None:
    loop = FastLoop(a_model(), k=2)
    assert [loop.choose(8, 8000) for _ in range(3)] == [2, 2, 2]
    assert loop.reason is ChangeReason.START


def test_text_that_the_drafter_foresees_gets_the_largest_k() -> None:
    assert set(AnEngine(FastLoop(a_model(), k=2)).serve(GOOD, 2.0)[-50:]) == {5}


@pytest.mark.parametrize("batch", [1, 8, 64])
def test_k_follows_a_change_of_text_in_both_directions_within_a_second_and_a_half(batch: int) -> None:
    engine = AnEngine(FastLoop(a_model(), k=2), batch)
    engine.serve(GOOD, 30.0)
    engine.serve(BAD, 1.5)
    assert engine.loop.k == 0
    engine.serve(BAD, 90.0)
    engine.serve(GOOD, 1.5)
    assert engine.loop.k >= 3


@pytest.mark.parametrize(("batch", "acceptance"), [(1, 0.1), (8, 0.05), (64, 0.0)])
def test_looks_cost_at_most_half_a_percent_once_a_minute_was_quiet(acceptance: float, batch: int) -> None:
    engine = AnEngine(FastLoop(a_model(), k=0), batch)
    engine.serve(acceptance, 70.0)
    began, tokens = engine.now, engine.tokens
    engine.serve(acceptance, 60.0)
    held = batch / seconds(batch, 0)
    assert (engine.tokens - tokens) / (engine.now - began) > 0.995 * held


def test_broken_drafter_ends_at_no_drafts_with_rare_looks() -> None:
    engine = AnEngine(FastLoop(a_model(), k=5))
    engine.serve(0.0, 70.0)
    late = engine.serve(0.0, 20.0)
    assert engine.loop.k == 0
    assert 0 < sum(k > 0 for k in late) < 0.04 * len(late)
    assert {k for k in late if k} == {1}


def test_k_of_0_that_is_no_candidate_needs_no_looks() -> None:
    engine = AnEngine(FastLoop(a_model(candidates=(1, 3)), k=1))
    assert set(engine.serve(BAD, 5.0)[-100:]) <= {1, 3}


def test_deeper_position_is_looked_at_so_that_a_better_k_is_found() -> None:
    """Half of the requests are foreseen well: the first position alone does not show it."""
    loop = FastLoop(a_model(), k=1)
    for _ in range(2000):
        k = loop.choose(8, 8000)
        loop.count(k, 8, [4] * k)
    assert loop.k == 5


def test_smaller_batch_leaves_room_for_longer_drafts() -> None:
    engine = AnEngine(FastLoop(a_model(), k=2), 64)
    engine.serve(0.6, 5.0)
    at_large = engine.loop.k
    engine.batch = 1
    engine.serve(0.6, 0.05)
    assert engine.loop.k > at_large
    assert engine.loop.reason is ChangeReason.BATCH


def at_turns(*batches: int, acceptances: tuple[float, ...] = (0.3,)) -> AnEngine:
    """Loads by turns of 15 s, where K=0 is best at 64 requests; with texts by turns as well, one per load."""
    per_request = tuple(tuple(seconds(batch, k) + 5e-5 * batch * k for k in KS) for batch in (1, 4, 64))
    model = replace(a_model(), batch_sizes=(1, 4, 64), step_seconds=per_request)
    engine = AnEngine(FastLoop(model, k=5))
    for turn, batch in enumerate(batches):
        engine.batch = batch
        engine.serve(acceptances[turn % len(acceptances)], 15.0)
    return engine


def test_load_that_leaves_the_text_alone_brings_no_more_looks() -> None:
    """Only a change of text makes looks worth more, and load that rises shows none."""
    engine = at_turns(4, 64, 4, 64, 4)
    engine.batch = 64
    looks, steps = engine.loop.looks, len(engine.chosen)
    engine.serve(0.3, 15.0)
    assert engine.loop.k == 0
    assert engine.loop.reason is ChangeReason.BATCH
    assert 0 < engine.loop.looks - looks < 0.02 * (len(engine.chosen) - steps)


def test_load_whose_text_changes_as_well_is_looked_at_as_after_every_change() -> None:
    engine = at_turns(64, 64, 64, 64, acceptances=(GOOD, BAD))
    assert engine.loop.k == 0
    assert engine.loop.reason is ChangeReason.ACCEPTANCE
    engine.serve(GOOD, 1.5)
    assert engine.loop.k > 0


def test_load_that_rises_by_small_steps_is_the_cause_of_the_change() -> None:
    """At the step before, the new K was best already, by less than a change is worth."""
    engine = at_turns(4)
    while engine.loop.k > 0:
        engine.batch = min(engine.batch + 1, 64)
        engine.step(0.3)
    assert engine.loop.reason is ChangeReason.BATCH


def test_longer_contexts_draft_less_where_drafts_cost_more_with_context() -> None:
    model = a_model(slope=1e-7)
    short, long = FastLoop(model, k=5), FastLoop(model, k=5)
    for _ in range(200):
        for loop, tokens in ((short, 8_000), (long, 800_000)):
            k = loop.choose(8, tokens)
            loop.count(k, 8, [6, 4, 3, 2, 1][:k])
    assert long.k < short.k


def test_new_cost_model_keeps_what_was_counted() -> None:
    engine = AnEngine(FastLoop(a_model(), k=2))
    engine.serve(GOOD, 5.0)
    engine.loop.use(a_model(Row(None, 2)))
    assert engine.step(GOOD) == 2
    assert engine.loop.reason is ChangeReason.COST_MODEL
    engine.loop.use(a_model())
    assert engine.step(GOOD) == 5


def test_limit_of_a_larger_batch_holds_at_once() -> None:
    engine = AnEngine(FastLoop(a_model(Row(8, 5), Row(None, 1)), k=2))
    engine.serve(GOOD, 5.0)
    engine.batch = 9
    assert engine.step(GOOD) == 1
    assert engine.loop.reason is ChangeReason.LIMIT


def test_weight_of_pauses_shortens_drafts() -> None:
    plain, weighted = (
        AnEngine(FastLoop(replace(a_model(), pause_weight=weight), k=2), 64) for weight in (0.0, 1.0)
    )
    assert sum(weighted.serve(GOOD, 5.0)[-50:]) < sum(plain.serve(GOOD, 5.0)[-50:])


def test_new_requests_are_looked_at_at_once() -> None:
    engine = AnEngine(FastLoop(a_model(), k=0))
    engine.serve(BAD, 100.0)
    looks = engine.loop.looks
    while engine.step(BAD) or engine.step(BAD) or engine.step(BAD):
        pass
    engine.step(BAD, new_requests=8)
    assert looks < engine.loop.looks


def test_survival_is_a_mean_over_the_time_with_and_without_drafts() -> None:
    engine = AnEngine(FastLoop(a_model(), k=0))
    engine.serve(GOOD, 150.0)
    assert engine.loop.survival[0] == pytest.approx(GOOD, abs=0.05)
    engine.serve(BAD, 30.0 * math.log(2.0))
    assert engine.loop.survival[0] == pytest.approx((GOOD + BAD) / 2, abs=0.1)


_STEPS = st.lists(
    st.tuples(
        st.integers(1, 80),  # batch
        st.integers(0, 10**7),  # tokens in the KV cache
        st.integers(0, 80),  # new requests
        st.lists(st.integers(0, 80), max_size=8),  # accepted by position, whatever is counted
        st.integers(0, 7),  # K of those drafts
    ),
    max_size=60,
)


@settings(deadline=None)
@given(steps=_STEPS, largest=st.sampled_from(KS), above=st.sampled_from(KS), k=st.integers(0, 9))
def test_chosen_k_is_always_allowed(
    steps: list[tuple[int, int, int, list[int], int]], largest: int, above: int, k: int
) -> None:
    model = a_model(Row(16, largest), Row(None, above))
    loop = FastLoop(model, k=k)
    for batch, context, new, accepted, drafted in steps:
        assert loop.choose(batch, context, new) in model.allowed(batch)
        loop.count(drafted, batch, accepted)
        survival = loop.survival
        assert all(
            0.0 <= after <= before <= 1.0 for before, after in zip((1.0, *survival), survival, strict=False)
        )


@settings(deadline=None)
@given(steps=_STEPS)
def test_same_steps_give_the_same_choices(steps: list[tuple[int, int, int, list[int], int]]) -> None:
    first, second = FastLoop(a_model(), k=3), FastLoop(a_model(), k=3)
    for batch, context, new, accepted, drafted in steps:
        assert first.choose(batch, context, new) == second.choose(batch, context, new)
        for loop in (first, second):
            loop.count(drafted, batch, accepted)


def chosen(limited: tuple[int, ...], *, per_request: float = 0.8, batch: int = 8) -> int:
    """K after many steps in which the others of the batch accept that ratio of each position."""
    loop = FastLoop(a_model(), k=3)
    others = max(1, batch - max(limited, default=0))
    for _ in range(400):
        k = loop.choose(batch, 8000, 0, limited)
        loop.count(k, others, [others * per_request**place for place in range(1, k + 1)])
    return loop.k


def test_draft_tokens_gain_only_for_requests_whose_limit_allows_them() -> None:
    assert chosen(()) == chosen((0,) * 5) == 5
    assert chosen((7,) * 5) < 5
    assert chosen((8,) * 5) == 0
    assert chosen((0, 8, 8, 8, 8)) == 1
