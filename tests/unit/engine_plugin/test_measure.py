"""Which cell a step belongs to, and how much engine time it took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider_engine.counting.measure import CellSums, Meter, Step
from tests.unit.engine_plugin.factories import CANDIDATES, MAX_NUM_SEQS


class Bench:
    """A meter and a clock; steps one after the other, unless a test schedules ahead."""

    def __init__(self, *, drafts_ahead: bool = True) -> None:
        self.meter = Meter(MAX_NUM_SEQS, max(CANDIDATES), drafts_ahead=drafts_ahead)
        self.now = 100.0

    def schedule(self, key: object, *names: str, k: int, gone: Sequence[str] = (), prefill: int = 0) -> None:
        self.meter.scheduled(
            key,
            request_ids=dict.fromkeys(names, 1),
            gone=gone,
            num_speculative_tokens=k,
            prefill_tokens=prefill,
            context_tokens=10 * len(names),
            began=self.now,
        )

    def finish(
        self,
        key: object,
        *,
        emitted: int = 1,
        drafted: Sequence[int] = (),
        accepted: Sequence[int] = (),
        work_left: bool = True,
    ) -> Step | None:
        return self.meter.finished(
            key,
            emitted_tokens=emitted,
            drafted=drafted,
            accepted=accepted,
            work_left=work_left,
            ended=self.now,
        )

    def step(self, *names: str, k: int, seconds: float = 0.1, gone: Sequence[str] = (), **more: Any) -> Step:
        key = object()
        self.schedule(key, *names, k=k, gone=gone)
        self.now += seconds
        step = self.finish(key, **more)
        assert step is not None
        return step

    def cells(self) -> dict[tuple[int, int | None], CellSums]:
        return {(cell["minBatchSize"], cell["numSpeculativeTokens"]): cell for cell in self.meter.sums()}


def test_the_steady_state_belongs_to_its_k_from_the_first_step_on() -> None:
    bench = Bench()
    for _ in range(3):
        bench.step("a", "b", k=3)
    assert {key: cell["steps"] for key, cell in bench.cells().items()} == {(2, 3): 3}


def test_one_step_after_a_change_of_k_is_mixed() -> None:
    bench = Bench()
    for k in (3, 3, 0, 0, 5, 5):
        bench.step("a", k=k)
    assert {key[1]: cell["steps"] for key, cell in bench.cells().items()} == {3: 2, None: 2, 0: 1, 5: 1}


def test_no_step_is_mixed_by_a_change_of_k_where_each_verifies_its_own_drafts() -> None:
    bench = Bench(drafts_ahead=False)
    for k in (3, 3, 0, 5):
        bench.step("a", k=k)
    assert {key[1]: cell["steps"] for key, cell in bench.cells().items()} == {3: 2, 0: 1, 5: 1}


def test_a_step_that_computes_prompts_is_mixed_where_each_verifies_its_own_drafts() -> None:
    bench = Bench(drafts_ahead=False)
    key = object()
    bench.schedule(key, "a", k=3, prefill=10)
    bench.finish(key)
    assert [key[1] for key in bench.cells()] == [None]


def test_requests_in_their_first_step_agree_with_any_k() -> None:
    bench = Bench()
    bench.step("a", k=5)
    assert not bench.step("b", k=0, gone=["a"]).mixed


def test_a_newcomer_does_not_hide_that_the_others_drafted_another_k() -> None:
    bench = Bench()
    bench.step("a", k=5)
    assert bench.step("a", "b", k=1).mixed


def test_a_request_that_paused_brings_its_old_drafts() -> None:
    bench = Bench()
    bench.step("a", "b", k=5)
    bench.step("b", k=1)
    bench.step("b", k=1)
    assert bench.step("a", "b", k=1).mixed
    assert not bench.step("a", "b", k=1).mixed


def test_an_id_that_is_used_again_is_a_new_request() -> None:
    bench = Bench()
    bench.step("a", k=5)
    assert not bench.step("a", k=0, gone=["a"]).mixed


def test_pipelined_batches_of_different_k_are_not_mixed() -> None:
    bench = Bench()
    bench.schedule(1, "a", k=5)
    bench.schedule(2, "b", "c", k=1)
    for turn in range(1, 5):
        step = bench.finish(2 * turn - 1)
        assert step is not None
        assert not step.mixed
        bench.schedule(2 * turn + 1, "a", k=5)
        step = bench.finish(2 * turn)
        assert step is not None
        assert not step.mixed
        bench.schedule(2 * turn + 2, "b", "c", k=1)


def test_sums_are_kept_per_cell_and_position() -> None:
    bench = Bench()
    bench.schedule(1, "a", "b", k=3, prefill=40)
    bench.now += 0.5
    bench.finish(1, emitted=6, drafted=(2, 2, 1), accepted=(2, 1, 1))
    (cell,) = bench.meter.sums()
    assert (cell["minBatchSize"], cell["maxBatchSize"], cell["numSpeculativeTokens"]) == (2, 3, 3)
    assert cell["steps"] == 1
    assert cell["stepSeconds"] == pytest.approx(0.5)
    assert (cell["scheduledRequests"], cell["emittedTokens"]) == (2, 6)
    assert (cell["prefillTokens"], cell["contextTokens"]) == (40, 20)
    assert (cell["draftTokens"], cell["acceptedTokens"]) == ([2, 2, 1, 0, 0], [2, 1, 1, 0, 0])


def test_idle_time_is_not_engine_time() -> None:
    bench = Bench()
    bench.step("a", k=0, seconds=0.1, work_left=False)
    bench.now += 50
    assert bench.step("b", k=0, seconds=0.2).seconds == pytest.approx(0.2)


def test_time_between_two_steps_is_engine_time_while_there_is_work() -> None:
    bench = Bench()
    bench.step("a", k=0)
    bench.now += 0.03
    assert bench.step("a", k=0, seconds=0.1).seconds == pytest.approx(0.13)


def test_the_longest_step_is_remembered() -> None:
    bench = Bench()
    for seconds in (0.1, 44.0, 0.2):
        bench.step("a", k=0, seconds=seconds)
    assert bench.meter.longest_step_seconds == pytest.approx(44.0)


def test_a_pause_that_somebody_asked_for_is_not_engine_time() -> None:
    bench = Bench()
    bench.step("a", k=0)
    bench.now += 60
    assert bench.step("a", k=0, seconds=0.1).seconds == pytest.approx(0.1)


def test_waiting_with_empty_steps_is_not_engine_time() -> None:
    bench = Bench()
    bench.step("a", k=0)
    bench.schedule(object(), k=0)
    bench.now += 0.5
    assert bench.step("a", k=0, seconds=0.1).seconds == pytest.approx(0.1)


def test_steps_that_overlap_share_the_time() -> None:
    bench = Bench()
    bench.schedule(1, "a", k=1)
    bench.now += 0.01
    bench.schedule(2, "a", k=1)
    seconds = []
    for turn in range(1, 6):
        bench.now += 0.1
        step = bench.finish(turn)
        assert step is not None
        seconds.append(step.seconds)
        bench.schedule(turn + 2, "a", k=1)
    assert sum(seconds) == pytest.approx(bench.now - 100.0)


def test_a_step_that_was_not_seen_when_it_was_scheduled_is_not_counted() -> None:
    bench = Bench()
    assert bench.finish("unknown") is None
    assert bench.meter.sums() == []


def test_a_step_without_a_result_does_not_hold_up_the_next() -> None:
    bench = Bench()
    bench.schedule("lost", "a", k=1)
    bench.schedule("next", "a", k=1)
    assert bench.finish("next") is not None
    assert bench.finish("lost") is None


def test_forgetting_keeps_the_sums() -> None:
    bench = Bench()
    bench.step("a", k=5)
    bench.schedule("in flight", "a", k=5)
    bench.meter.forget()
    assert bench.finish("in flight") is None
    assert not bench.step("a", k=0).mixed
    assert {key[1]: cell["steps"] for key, cell in bench.cells().items()} == {5: 1, 0: 1}


@given(st.lists(st.tuples(st.integers(1, MAX_NUM_SEQS), st.sampled_from(CANDIDATES), st.booleans())))
def test_nothing_is_lost_and_nothing_is_counted_twice(steps: list[tuple[int, int, bool]]) -> None:
    bench = Bench()
    for size, k, work_left in steps:
        key = object()
        bench.schedule(key, *(f"r{index}" for index in range(size)), k=k, prefill=size)
        bench.now += 0.25
        bench.finish(key, emitted=size, drafted=[size] * k, work_left=work_left)
    cells = bench.meter.sums()
    requests = sum(size for size, _, _ in steps)
    assert sum(cell["steps"] for cell in cells) == len(steps)
    assert sum(cell["stepSeconds"] for cell in cells) == pytest.approx(0.25 * len(steps))
    for name in ("scheduledRequests", "emittedTokens", "prefillTokens"):
        assert sum(cell[name] for cell in cells) == requests
    assert sum(sum(cell["draftTokens"]) for cell in cells) == sum(size * k for size, k, _ in steps)
