"""The discrete-event engine: nothing is lost, and all forms of a sum agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.performance.accepted_tokens import gain_of
from outrider_lab.engines.event_engine import EnginePod, Limits
from outrider_lab.traffic.acceptance import Acceptances
from outrider_lab.traffic.requests import ALIKE, Source, Trace, Traffic
from outrider_protocol.schedule import Row, Schedule
from tests.unit.lab.factories import CODE, EDGES, a_step, closed, opened

KS = (0, 1, 3)


def an_engine(
    trace: Trace, *, limits: Limits | None = None, slowness: float = 1.0, tax: float = 0.1
) -> EnginePod:
    return EnginePod(
        a_step(idle_tax=tax),
        limits or Limits(),
        Acceptances(trace),
        Source(trace, 0),
        edges=EDGES,
        candidates=KS,
        rng=np.random.default_rng(trace.seed),
        slowness=slowness,
    )


def ran(*phases: Traffic, k: int = 1, seed: int = 0, seconds: float = 60.0, **options: object) -> EnginePod:
    engine = an_engine(Trace(phases, seed=seed), **options)  # type: ignore[arg-type]
    engine.run(seconds, lambda _: k)
    return engine


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), k=st.sampled_from(KS), rate=st.floats(0.2, 4.0))
def test_open_requests_are_all_served_and_every_token_is_counted_once(seed: int, k: int, rate: float) -> None:
    trace = Trace((opened(rate, seconds=20.0),), seed=seed)
    engine = an_engine(trace)
    engine.run(2000.0, lambda _: k)
    assert engine.finished == len(trace.arrivals[0])
    assert engine.running == 0
    assert engine.counters.generated == pytest.approx(sum(r.output for r in trace.arrivals[0]))
    assert engine.counters.prefill == pytest.approx(sum(r.prompt for r in trace.arrivals[0]))
    assert engine.kv_tokens == pytest.approx(0, abs=1e-3)


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), k=st.sampled_from(KS), streams=st.integers(1, 40))
def test_the_cells_add_up_to_the_stock_counters(seed: int, k: int, streams: int) -> None:
    counters = ran(closed(streams, seconds=20.0), k=k, seed=seed, seconds=20.0).counters
    cells = counters.cells.values()
    assert sum(c.emitted for c in cells) == pytest.approx(counters.generated)
    assert sum(c.drafts for c in cells) == pytest.approx(counters.drafts)
    assert sum(c.prefill for c in cells) == pytest.approx(counters.prefill)
    assert sum(sum(c.accepted) for c in cells) == pytest.approx(counters.accepted_tokens)
    assert sum(c.steps for c in cells) >= counters.engine_steps
    assert {key[1] for key in counters.cells} == {k}


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), k=st.sampled_from((1, 3)))
def test_generated_tokens_are_steps_first_tokens_and_accepted_ones_less_what_lies_behind_ends(
    seed: int, k: int
) -> None:
    engine = ran(closed(8), k=k, seed=seed)
    c = engine.counters
    given_ = c.request_steps + c.first_tokens + c.accepted_tokens
    assert c.generated <= given_ + 1e-6
    assert given_ - c.generated <= engine.finished * (1 + k)


def test_accepted_positions_match_the_acceptance() -> None:
    plain = Traffic(200.0, (0.8, 0.5), streams=16, output=400)
    counters = ran(plain, k=2, seconds=200.0).counters
    kinds = [gain_of(plain.probability(d, 1.0), 2) for d in range(3)]
    shares = [counters.accepted[j] / counters.drafts for j in range(2)]
    for j, share in enumerate(shares):
        low, high = min(g.shares[j] for g in kinds), max(g.shares[j] for g in kinds)
        assert low < share < high
    assert shares[0] == pytest.approx(0.8, abs=0.02)


def test_the_mean_and_the_spread_of_a_draft_are_those_of_a_run_of_hits() -> None:
    rng = np.random.default_rng(0)
    probabilities = (0.8, 0.6, 0.5)
    runs = np.cumprod(rng.random((200_000, 3)) < probabilities, axis=1).sum(axis=1)
    gain = gain_of(probabilities, 3)
    assert gain.mean == pytest.approx(runs.mean(), rel=0.01)
    assert gain.deviation == pytest.approx(runs.std(), rel=0.01)


@settings(max_examples=20)
@given(streams=st.integers(8, 16), seed=st.integers(0, 1000))
def test_a_seat_is_empty_until_the_step_ends_in_which_its_client_comes_back(streams: int, seed: int) -> None:
    # Some hundred requests: over fewer, those that are away at the end weigh too much.
    traffic = closed(streams, away_steps=1.5, seconds=300.0)
    counters = (engine := ran(traffic, k=1, seed=seed, seconds=300.0)).counters
    taken = sum(cell.requests for cell in counters.cells.values())
    empty = streams * counters.engine_steps - taken
    assert empty == pytest.approx(2.0 * engine.finished, rel=0.1)


def test_fewer_streams_are_left_when_the_load_falls_and_more_when_it_rises() -> None:
    falling = ran(closed(8, seconds=20.0), closed(2, seconds=60.0), seconds=79.0)
    rising = ran(closed(2, seconds=20.0), closed(8, seconds=60.0), seconds=79.0)
    assert falling.running == 2
    assert rising.running == 8


def test_a_full_cache_sends_the_newest_request_back_and_loses_nothing() -> None:
    trace = Trace((opened(3.0, seconds=20.0, output=400),), seed=1)
    engine = an_engine(trace, limits=Limits(kv_cache_tokens=8000))
    engine.run(3000.0, lambda _: 1)
    assert engine.preemptions > 0
    assert engine.finished == len(trace.arrivals[0])
    assert engine.finished_tokens == sum(r.output for r in trace.arrivals[0])
    assert engine.kv_tokens == pytest.approx(0, abs=1e-3)


def test_long_prompts_are_computed_in_chunks() -> None:
    small, large = (
        ran(closed(1, prompt=4000), limits=Limits(max_num_batched_tokens=budget)) for budget in (512, 8192)
    )
    prompts = [e.counters.prefill for e in (small, large)]
    silent = [
        sum(c.steps for c in e.counters.cells.values()) - e.counters.engine_steps for e in (small, large)
    ]
    assert prompts[0] > 0
    assert silent[0] > 5 * max(1, silent[1])


def test_the_table_is_read_at_the_number_of_scheduled_requests() -> None:
    table = Schedule((Row(4, 3), Row(None, 1)))
    for streams, k in ((3, 3), (8, 1)):
        engine = an_engine(Trace((closed(streams),)))
        engine.run(30.0, table.k_at)
        widest = max(engine.counters.cells.items(), key=lambda item: item[1].seconds)[0]
        assert widest[1] == k


def test_k_0_drafts_nothing_and_is_slower_than_no_drafter() -> None:
    taxed, bare = ran(closed(8), k=0, tax=0.2), ran(closed(8), k=0, tax=0.0)
    assert taxed.counters.drafts == 0
    assert taxed.counters.generated == pytest.approx(bare.counters.generated / 1.2, rel=0.03)


def test_at_equal_work_its_own_k_took_exactly_the_time_it_took() -> None:
    for index, k in enumerate(KS, start=1):
        work = ran(closed(8, prompt=2000), k=k).take_work()
        assert work.needed[index] == pytest.approx(work.seconds)


def test_k_0_with_its_tax_needs_that_much_longer_than_no_drafter() -> None:
    work = ran(closed(8), k=1, tax=0.15).take_work()
    assert work.needed[1] == pytest.approx(1.15 * work.needed[0])


def test_without_drafts_its_goodput_is_that_of_the_formula() -> None:
    """Prompts take time too; with outputs this long that is little."""
    engine = ran(closed(8, prompt=50, output=5000), k=0)
    work = engine.take_work()
    mean_kv = sum(c.context for c in engine.counters.cells.values()) / engine.counters.engine_steps
    assert work.tokens / work.seconds == pytest.approx(8 / a_step().seconds(8, 0, mean_kv), rel=0.02)


def test_requests_of_fixed_length_that_are_alike_gain_what_the_curve_says() -> None:
    phase = Traffic(60.0, (0.7, 0.5, 0.4), streams=8, prompt=100.0, output=200.0, length_spread=0.0)
    engine = ran(replace(phase, exponents=ALIKE), k=3)
    counters = engine.counters
    assert counters.accepted_tokens / counters.drafts == pytest.approx(0.7 + 0.35 + 0.14, rel=0.03)
    assert engine.finished_tokens == 200 * engine.finished > 0


def test_cached_prompt_tokens_are_in_the_cache_and_are_not_computed() -> None:
    phase = Traffic(20.0, CODE, streams=1, prompt=1000.0, output=100.0, length_spread=0.0)
    bare, cached = ran(phase, seconds=20.0), ran(replace(phase, cached=992.0), seconds=20.0)
    assert bare.counters.prefill == pytest.approx(1000 * (bare.finished + 1))
    assert cached.counters.prefill == pytest.approx(8 * (cached.finished + 1))
    assert cached.kv_tokens >= 1000
