"""The sweep: what is measured first, what counts, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider_engine.control.engine_facts import Room
from outrider_engine.control.startup_profile import (
    DEEP_CONTEXT,
    MAX_PROMPT_TOKENS,
    MAX_ROUNDS,
    MIN_STEPS,
    SHORT_CONTEXT,
    STEPS_PER_SLICE,
    StartupProfile,
    Visit,
    batch_sizes,
    in_halves,
    plan,
)
from outrider_engine.control.state import unavailable
from outrider_engine.control.verbs import (
    BEGIN_PROFILE,
    BEGIN_VISIT,
    END_PROFILE,
    END_VISIT,
    MEASUREMENT,
    PUT_MEASURING,
    STATE,
    VISITING,
)
from outrider_engine.counting.measure import Step
from outrider_engine.startup.profiling import budget_seconds, measure_profile, prompt, start_seconds
from outrider_engine.startup.readiness import CoreHangs
from outrider_engine.startup.self_test_journal import SelfTestJournal
from outrider_protocol.engine_state import State, SweepState, SweepWire
from tests.unit.engine_plugin.factories import EnginesByVerb
from tests.unit.engine_plugin.fake_vllm import Engine, decoding, prompts, some_config

ROOMY = Room(request=8192, cache=10**7)
KS = (0, 3)


def begun(*, room: Room = ROOMY, seconds: float = 20.0) -> tuple[StartupProfile, list[Visit]]:
    return StartupProfile().begun(KS, max_num_seqs=8, room=room, seconds=seconds, obstacle=None, now=10.0)


def a_step(k: int, *, seconds: float = 0.01, batch: int = 2, mixed: bool = False, prefill: int = 0) -> Step:
    return Step(batch, k, mixed, seconds, batch, prefill_tokens=prefill, context_tokens=100 * batch)


def visited(found: StartupProfile, **wrong: float) -> StartupProfile:
    """One visit of two requests, as an engine runs it: the first step of a slice is mixed."""
    found = found.with_visit(2, SHORT_CONTEXT, now=11.0)
    while found.visiting:
        assert found.probe is not None
        k = found.probe.k_in_force
        assert k is not None
        found = found.after(a_step(k, mixed=True, seconds=9.0))
        for _ in range(STEPS_PER_SLICE - 1):
            found = found.after(a_step(k, seconds=wrong.get(f"k{k}", 0.01 + k / 100)))
    return found.left()


def test_the_ends_and_the_middle_come_first_and_then_the_cheapest() -> None:
    _, visits = begun()
    places = [(visit["batchSize"], visit["contextTokens"]) for visit in visits]
    assert places[:5] == [
        (1, SHORT_CONTEXT),
        (8, SHORT_CONTEXT),
        (2, SHORT_CONTEXT),
        (4, SHORT_CONTEXT),
        (1, DEEP_CONTEXT),
    ]
    assert len(set(places)) == 8
    assert places == places[:8] * MAX_ROUNDS


def test_a_large_batch_and_cache_make_no_visit_expensive() -> None:
    an_h200 = Room(request=8192, cache=861_680)
    visits = list(plan(1024, an_h200))[: 2 * len(batch_sizes(1024))]
    tokens = [visit["batchSize"] * visit["contextTokens"] for visit in visits]
    assert tokens[3:] == sorted(tokens[3:])
    assert max(tokens) <= MAX_PROMPT_TOKENS
    deep = {visit["batchSize"]: visit["contextTokens"] for visit in visits if visit["contextTokens"] > 32}
    assert (deep[1], deep[64], deep[1024]) == (DEEP_CONTEXT, DEEP_CONTEXT, 128)


@given(st.integers(1, 2000))
def test_every_batch_size_is_visited_once_a_round(most: int) -> None:
    sizes = batch_sizes(most)
    assert sorted(in_halves(sizes)) == list(sizes)
    assert (sizes[0], sizes[-1]) == (1, most)
    assert all(high <= 2 * low for low, high in pairwise(sizes))


@given(st.integers(1, 512), st.integers(16, 100_000), st.integers(16, 10**6))
def test_no_visit_needs_more_room_than_there_is(most: int, request: int, cache: int) -> None:
    for visit in plan(most, Room(request, cache)):
        assert visit["contextTokens"] + visit["tokens"] <= request
        assert visit["contextTokens"] * visit["batchSize"] <= cache


def test_steps_of_the_batch_and_k_are_the_map() -> None:
    found = visited(begun()[0]).closed(None, now=12.0)
    assert (found.state, found.note) == (SweepState.MEASURED, "2 cells in 2.0 s")
    cells = [
        (c["batchSize"], c["numSpeculativeTokens"], round(c["stepSeconds"], 9), c["contextTokens"])
        for c in found.step_times()
    ]
    assert cells == [(2, 0, 0.01, 100), (2, 3, 0.04, 100)]
    assert json.loads(json.dumps(found.step_times())) == found.step_times()


def test_the_next_visit_runs_downwards_so_that_what_drifts_falls_out() -> None:
    found = visited(begun()[0])
    assert found.with_visit(2, SHORT_CONTEXT, now=12.0).probe.k_in_force == max(KS)  # type: ignore[union-attr]
    again = visited(found, k0=0.03)
    (first, _) = again.step_times()
    assert first["steps"] == 2 * (STEPS_PER_SLICE - 1)
    assert first["stepSeconds"] == pytest.approx(0.02)
    assert first["error"] > 0.1


@pytest.mark.parametrize(
    "step", [a_step(0, prefill=5), a_step(0, batch=1), a_step(3), a_step(0, mixed=True)], ids=str
)
def test_a_step_of_anything_else_counts_for_nothing(step: Step) -> None:
    found = begun()[0].with_visit(2, SHORT_CONTEXT, now=11.0)
    assert found.after(step).samples == {}


def test_a_step_that_met_something_else_does_not_move_a_cell() -> None:
    found = begun()[0].with_visit(2, SHORT_CONTEXT, now=11.0)
    for seconds in (0.01, 0.01, 5.0, 0.01):
        found = found.after(a_step(0, seconds=seconds))
    assert found.step_times()[0]["stepSeconds"] == pytest.approx(0.01)


def test_what_one_step_is_late_the_next_one_is_short() -> None:
    """So a visit is worth its mean, and no step of it."""
    found = begun()[0].with_visit(2, SHORT_CONTEXT, now=11.0)
    for seconds in (0.010, 0.014, 0.006, 0.014, 0.006):
        found = found.after(a_step(0, seconds=seconds))
    assert found.step_times()[0]["stepSeconds"] == pytest.approx(0.010)


def test_too_few_steps_are_no_cell_and_a_map_without_cells_has_failed() -> None:
    found = begun()[0].with_visit(2, SHORT_CONTEXT, now=11.0)
    for _ in range(MIN_STEPS - 1):
        found = found.after(a_step(0))
    found = found.closed("the drafter broke", now=12.0)
    assert (found.state, found.step_times()) == (SweepState.FAILED, [])
    assert found.to_wire() == SweepWire(state="Failed", detail="0 cells in 2.0 s; the drafter broke")


def test_k_rules_no_step_after_the_budget() -> None:
    found = begun(seconds=5.0)[0].with_visit(2, SHORT_CONTEXT, now=11.0)
    assert found.at(14.9).visiting
    assert not found.at(15.0).visiting


def test_a_second_front_end_makes_no_visit() -> None:
    found, _ = begun()
    again, visits = found.begun(KS, max_num_seqs=8, room=ROOMY, seconds=20, obstacle=None, now=11.0)
    assert (again, visits) == (found, [])


# In the engine core.


@pytest.mark.usefixtures("vllm")
def test_it_runs_on_the_scheduler_and_is_no_traffic() -> None:
    engine = Engine(some_config())
    before = engine.lookup()
    assert engine.ask(BEGIN_PROFILE, 20.0)
    engine.ask(BEGIN_VISIT, Visit(batchSize=2, contextTokens=SHORT_CONTEXT, tokens=9))
    engine.step(prompts("a", "b"))
    ks = []
    while engine.ask(VISITING):
        ks.append(engine.step(decoding("a", "b")).num_spec_tokens_to_schedule)
    assert sorted(set(ks)) == [0, 1, 2, 3, 5]
    engine.ask(END_VISIT)
    engine.ask(END_PROFILE)
    assert engine.lookup() == before
    assert engine.ask(MEASUREMENT)["cells"] == []
    told = engine.ask(STATE)
    assert (told["startupProfile"]["state"], len(told["stepTimes"])) == ("Measured", 5)
    engine.step(decoding("c"))
    assert sum(cell["steps"] for cell in engine.ask(MEASUREMENT)["cells"]) == 1


@pytest.mark.usefixtures("vllm")
def test_the_map_is_told_where_the_state_is_asked_for_and_not_in_answers_to_pushes() -> None:
    engine = Engine(some_config())
    assert engine.ask(STATE)["stepTimes"] == []
    assert "stepTimes" not in engine.ask(PUT_MEASURING, True)


@pytest.mark.usefixtures("vllm")
def test_an_engine_that_cannot_be_tuned_skips_it_and_says_why() -> None:
    engine = Engine(some_config(speculative_config=None))
    assert engine.ask(BEGIN_PROFILE, 20.0) == []
    assert engine.ask(STATE)["startupProfile"] == {
        "state": "Skipped",
        "detail": "the engine was launched without speculation",
    }


@pytest.mark.usefixtures("vllm")
def test_a_release_that_does_not_tell_its_room_skips_it() -> None:
    engine = Engine(some_config(cache_config=None))
    assert engine.ask(BEGIN_PROFILE, 20.0) == []
    assert "cache size" in engine.ask(STATE)["startupProfile"]["detail"]


# In the front end.


class FakeEngines(EnginesByVerb):
    """Engine cores whose visits end after a few looks."""

    def __init__(self, visits: int = 2, *, fault: Exception | None = None, hangs: bool = False) -> None:
        self.visits = [Visit(batchSize=2, contextTokens=8, tokens=4)] * visits
        self.fault, self.hangs = fault, hangs
        self.looks = self.left = self.requests = self.aborted = 0
        self.closed: list[str | None] = []
        self.endless = False

    async def state(self, _: None) -> State:
        return cast(State, {**unavailable(""), "startupProfile": StartupProfile().to_wire()})

    async def begin_profile(self, seconds: float) -> list[Visit]:
        assert seconds > 0
        return self.visits

    async def begin_visit(self, visit: Visit) -> None:
        assert visit in self.visits
        self.looks = 0

    async def visiting(self, _: None) -> bool:
        self.looks += 1
        return self.endless or self.looks < 3

    async def end_visit(self, _: None) -> None:
        self.left += 1

    async def end_profile(self, fault: str | None) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        self.closed.append(fault)

    async def generate(self, prompt: list[int], tokens: int) -> list[int]:
        assert tokens == 4
        self.requests += 1
        if self.fault is not None:
            raise self.fault
        try:
            await asyncio.Event().wait()
        finally:
            self.aborted += 1
        return prompt


async def test_each_visit_has_its_batch_which_is_gone_before_the_next() -> None:
    engines = FakeEngines()
    await measure_profile(engines, SelfTestJournal(None), 10.0)
    assert (engines.requests, engines.aborted, engines.left, engines.closed) == (4, 4, 2, [None])


async def test_it_ends_with_its_budget_and_that_is_no_fault() -> None:
    engines = FakeEngines()
    engines.endless = True
    await measure_profile(engines, SelfTestJournal(None), 0.1)
    assert (engines.aborted, engines.closed) == (2, [None])


async def test_a_request_that_fails_ends_the_sweep_and_not_the_start() -> None:
    engines = FakeEngines(fault=RuntimeError("drafter\nwith a trace"))
    await measure_profile(engines, SelfTestJournal(None), 10.0)
    assert engines.closed == ["RuntimeError: drafter"]


async def test_without_a_budget_there_is_none() -> None:
    engines = FakeEngines()
    await measure_profile(engines, SelfTestJournal(None), 0.0)
    assert (engines.requests, engines.closed) == (0, [])


async def test_a_core_that_hangs_ends_the_engine_and_the_next_start_leaves_the_sweep_out(
    tmp_path: Path,
) -> None:
    file = tmp_path / "sweep"
    with pytest.raises(CoreHangs):
        await measure_profile(FakeEngines(hangs=True), SelfTestJournal(file), 10.0, answer_seconds=0.01)
    restarted = FakeEngines()
    await measure_profile(restarted, SelfTestJournal(file), 10.0)
    assert restarted.requests == 0


async def test_a_sweep_that_ended_is_made_again_at_the_next_start(tmp_path: Path) -> None:
    file = tmp_path / "sweep"
    await measure_profile(FakeEngines(), SelfTestJournal(file), 10.0)
    assert SelfTestJournal(file).unfinished == frozenset()


def test_the_budget_is_a_tenth_of_the_start_and_never_above_its_limit() -> None:
    assert [budget_seconds({}, start) for start in (30.0, 1000.0)] == [3.0, 20.0]
    told = {"OUTRIDER_SWEEP_SECONDS": "5", "OUTRIDER_SWEEP_SHARE": "0.5"}
    assert [budget_seconds(told, start) for start in (4.0, 100.0)] == [2.0, 5.0]
    assert budget_seconds({"OUTRIDER_SWEEP_SECONDS": "long"}, 1000.0) == 20.0


def test_no_two_requests_of_a_batch_share_their_prompt_and_each_is_the_same_at_every_visit() -> None:
    texts = {tuple(prompt(index, 32)) for index in range(1024)}
    assert len(texts) == 1024
    assert prompt(7, 64)[:32] == prompt(7, 32)
    assert len(prompt(7, 33)) == 33


def test_the_start_is_as_old_as_the_process(tmp_path: Path) -> None:
    assert 0 < start_seconds() < 10**6
    assert start_seconds(tmp_path / "nowhere") == 0.0
