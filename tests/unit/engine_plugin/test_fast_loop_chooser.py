"""The fast loop inside an engine core: when it chooses K, what it hears, and what ends it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from outrider_engine.control.core import EngineCoreControl
from outrider_engine.control.fast_loop_chooser import Choice
from outrider_engine.control.push import parse_push
from outrider_engine.counting.measure import Step
from outrider_engine.vllm_adapter.support import VllmFacts
from outrider_protocol.agreement import Agreement
from outrider_protocol.control_api import Push, Reason, Refusal, Slice
from outrider_protocol.engine_state import FastLoopWire
from outrider_protocol.fast_loop import FastLoop
from outrider_protocol.releases import Runner
from outrider_protocol.schedule import Schedule
from tests.unit.engine_plugin.factories import (
    CANDIDATES,
    MAX_NUM_SEQS,
    STATIC,
    FakeClock,
    FakeScheduler,
    a_control,
    a_cost_model,
    a_probe,
    a_push,
    some_facts,
)

ALL = range(1, MAX_NUM_SEQS + 1)


@pytest.fixture
def scheduler() -> FakeScheduler:
    return FakeScheduler()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def control(scheduler: FakeScheduler, clock: FakeClock) -> EngineCoreControl:
    return a_control(scheduler, clock=clock)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What the rule was asked and given; it always chooses 1."""
    calls: list[tuple[object, ...]] = []

    def choose(
        _: FastLoop, batch: int, context_tokens: int, new_requests: int = 0, limited: Sequence[int] = ()
    ) -> int:
        calls.append(("choose", batch, context_tokens, new_requests, *limited))
        return 1

    def count(_: FastLoop, k: int, requests: int, accepted: Sequence[int]) -> None:
        calls.append(("count", k, requests, tuple(accepted)))

    monkeypatch.setattr(FastLoop, "choose", choose)
    monkeypatch.setattr(FastLoop, "count", count)
    return calls


def looked_up(scheduler: FakeScheduler, batches: Sequence[int] = ALL) -> list[int]:
    """K of a step by its number of requests, as vLLM looks it up."""
    assert scheduler.lookup is not None
    return [scheduler.lookup[batch] for batch in batches]


def fast_loop(control: EngineCoreControl) -> FastLoopWire:
    return control.state()["fastLoop"]


def why_not(control: EngineCoreControl) -> tuple[bool, str | None]:
    wire = fast_loop(control)
    return wire["active"], wire["inactiveReason"]


@pytest.mark.usefixtures("told")
def test_with_a_cost_model_k_is_chosen_as_vllm_looks_it_up(
    control: EngineCoreControl, scheduler: FakeScheduler
) -> None:
    state = control.put(a_push(table=Schedule.constant(3), cost_model=a_cost_model()))
    assert looked_up(scheduler) == [1] * MAX_NUM_SEQS
    assert state["schedule"] == [{"numSpeculativeTokens": 3}]
    assert list(scheduler.lookup or ()) == [0] + [3] * MAX_NUM_SEQS
    assert why_not(control) == (True, None)


def test_the_choice_knows_the_batch_its_context_and_who_is_new(
    control: EngineCoreControl, scheduler: FakeScheduler, told: list[tuple[object, ...]]
) -> None:
    control.put(a_push(cost_model=a_cost_model()))
    scheduler.running = [100, 30]
    looked_up(scheduler, [2])
    control.fast_loop.scheduled("first", k=1, decoding=0, new_requests=2)
    looked_up(scheduler, [2])
    assert told == [("choose", 2, 130, 0), ("choose", 2, 130, 2)]


def test_drafts_are_counted_under_the_k_of_the_step_that_made_them(
    control: EngineCoreControl, told: list[tuple[object, ...]]
) -> None:
    """Also where the next step is scheduled before this one has its result."""
    fast_loop = control.fast_loop
    control.put(a_push(cost_model=a_cost_model()))
    fast_loop.scheduled("prompts", k=3, decoding=0, new_requests=2)
    fast_loop.scheduled("first", k=5, decoding=2, new_requests=0)
    fast_loop.verified("prompts", drafted=(), accepted=())
    fast_loop.scheduled("second", k=0, decoding=2, new_requests=0)
    fast_loop.verified("first", drafted=(2, 2, 2), accepted=(2, 1, 0))
    fast_loop.scheduled("third", k=0, decoding=2, new_requests=0)
    fast_loop.verified("second", drafted=(1, 1, 1, 1, 1), accepted=(1, 1, 0, 0, 0))
    fast_loop.verified("third", drafted=(), accepted=())
    assert told == [("count", 3, 2, (2, 1, 0)), ("count", 5, 2, (1, 1, 0, 0, 0))]


def test_a_step_that_verifies_its_own_drafts_is_counted_under_its_own_k(
    scheduler: FakeScheduler, told: list[tuple[object, ...]]
) -> None:
    control = a_control(scheduler, facts=replace(some_facts(), drafts_ahead=False))
    control.put(a_push(cost_model=a_cost_model()))
    control.fast_loop.scheduled("prompts", k=3, decoding=0, new_requests=2)
    control.fast_loop.scheduled("first", k=2, decoding=2, new_requests=0)
    control.fast_loop.verified("prompts", drafted=(), accepted=())
    control.fast_loop.verified("first", drafted=(2, 2), accepted=(2, 1))
    assert told == [("count", 2, 2, (2, 1))]


def test_a_step_whose_result_never_came_is_forgotten(
    control: EngineCoreControl, told: list[tuple[object, ...]]
) -> None:
    fast_loop = control.fast_loop
    control.put(a_push(cost_model=a_cost_model()))
    for key in ("first", "lost", "third"):
        fast_loop.scheduled(key, k=2, decoding=1, new_requests=0)
    fast_loop.verified("third", drafted=(1, 1), accepted=(1, 0))
    fast_loop.verified("lost", drafted=(1, 1), accepted=(1, 1))
    assert told == [("count", 2, 1, (1, 0))]


@pytest.mark.usefixtures("told")
def test_steps_are_summed_up_by_the_k_that_the_fast_loop_chose(
    control: EngineCoreControl, scheduler: FakeScheduler
) -> None:
    control.put(a_push(cost_model=a_cost_model()))
    looked_up(scheduler, [8])
    control.fast_loop.scheduled("chosen", k=1, decoding=8, new_requests=0)
    control.fast_loop.scheduled("held", k=5, decoding=8, new_requests=0)
    choice = control.fast_loop.verified("chosen", drafted=(), accepted=())
    assert choice == Choice(1, look=False)
    control.after_step(Step(8, 1, mixed=False, seconds=0.03, emitted_tokens=8), choice)
    held = control.fast_loop.verified("held", drafted=(), accepted=())
    control.after_step(Step(8, 5, mixed=False, seconds=0.05, emitted_tokens=8), held)
    assert fast_loop(control)["steps"] == [{"numSpeculativeTokens": 1, "steps": 1, "seconds": 0.03}]


def test_looks_and_changes_of_k_are_told_with_their_reason(
    control: EngineCoreControl, scheduler: FakeScheduler
) -> None:
    """Of the rule itself: everything is refused, so it leaves K at 0 and looks now and then."""
    control.put(a_push(cost_model=a_cost_model()))
    scheduler.running = [100] * 8
    k, looked = 0, 0
    for step in range(400):
        (k,) = looked_up(scheduler, [8])
        control.fast_loop.scheduled(step, k=k, decoding=8, new_requests=0)
        choice = control.fast_loop.verified(step, drafted=(8,) * k, accepted=(0,) * k)
        assert choice is not None
        looked += choice.look
        control.after_step(Step(8, k, mixed=True, seconds=0.02, emitted_tokens=8), choice)
    wire = fast_loop(control)
    assert wire["numSpeculativeTokens"] == 0
    assert sum(wire["changes"].values()) >= 1
    assert wire["lastChange"] in wire["changes"]
    assert wire["looks"] == looked > 0
    assert wire["lookSeconds"] == pytest.approx(0.02 * looked)
    assert wire["hookSeconds"] > 0.0


# What the schedule keeps.


def test_without_a_cost_model_the_schedule_decides(
    control: EngineCoreControl, scheduler: FakeScheduler, told: list[tuple[object, ...]]
) -> None:
    control.put(a_push())
    assert looked_up(scheduler) == [3] * MAX_NUM_SEQS
    assert (type(scheduler.lookup), told) == (list, [])
    assert why_not(control) == (False, "NoCostModel")


@pytest.mark.usefixtures("told")
def test_a_newer_push_without_a_cost_model_ends_it(
    control: EngineCoreControl, scheduler: FakeScheduler
) -> None:
    control.put(a_push(epoch=1, cost_model=a_cost_model()))
    control.put(a_push(epoch=2))
    assert looked_up(scheduler) == [3] * MAX_NUM_SEQS
    assert why_not(control) == (False, "NoCostModel")


@pytest.mark.usefixtures("told")
def test_the_cost_model_goes_with_its_lease_and_comes_back_with_its_renewal(
    control: EngineCoreControl, scheduler: FakeScheduler, clock: FakeClock
) -> None:
    push = a_push(cost_model=a_cost_model(), lease_seconds=10)
    control.put(push)
    clock.advance(10)
    control.before_schedule()
    assert looked_up(scheduler) == list(STATIC.dense(MAX_NUM_SEQS)[1:])
    assert why_not(control) == (False, "LeaseLapsed")
    control.put(push)
    assert looked_up(scheduler) == [1] * MAX_NUM_SEQS


@pytest.mark.usefixtures("told")
def test_a_probe_holds_its_bin_and_the_fast_loop_has_the_others(
    control: EngineCoreControl, scheduler: FakeScheduler
) -> None:
    control.put(a_push(cost_model=a_cost_model()))
    control.start_probe(a_probe(Slice(5, steps=3), low=7, high=12))
    assert looked_up(scheduler) == [*[1] * 6, *[5] * 6, *[1] * 4]
    for _ in range(3):
        control.after_step(Step(8, 5, mixed=False, seconds=0.1, emitted_tokens=8))
    assert looked_up(scheduler) == [1] * MAX_NUM_SEQS


@pytest.mark.parametrize("other", [None, a_cost_model(per_draft=0.002)])
def test_the_same_fence_with_another_cost_model_is_refused(control: EngineCoreControl, other: Any) -> None:
    control.put(a_push(cost_model=a_cost_model()))
    with pytest.raises(Refusal) as refused:
        control.put(a_push(cost_model=other))
    assert refused.value.reason is Reason.STALE_EPOCH
    assert "another cost model" in refused.value.message
    assert why_not(control) == (True, None)


# A cost model that cannot be used never costs the schedule.


def pushed(model: object) -> Push:
    """As it comes over the wire."""
    return parse_push(a_push(table=Schedule.constant(2)).to_wire() | {"costModel": model})


def pushed_with(**changes: object) -> Push:
    """With a cost model of which some fields are others."""
    return pushed(a_cost_model().to_wire() | changes)


@pytest.mark.parametrize(
    ("push", "detail"),
    [
        (pushed_with(revision="eagle3/64/5"), "of the launch eagle3/64/5"),
        (pushed_with(candidates=[0, 1, 2, 3, 4]), "K=[4]"),
        (pushed_with(stepSeconds=[[math.nan] * 5] * 2), "stepSeconds[0][0] must be finite"),
        (pushed_with(batchSizes=list(range(1, 2000))), "batchSizes"),
        (pushed_with(limits=[]), "limits"),
        (pushed_with(surprise=1), "costModel has a key that is not known"),
        (
            parse_push(a_push(table=Schedule.constant(2)).to_wire() | {"costModel": 7}),
            "costModel must be an object",
        ),
    ],
)
def test_a_cost_model_that_cannot_be_used_is_refused_by_name_and_the_schedule_runs(
    control: EngineCoreControl, scheduler: FakeScheduler, push: Push, detail: str
) -> None:
    control.put(push)
    assert looked_up(scheduler) == [2] * MAX_NUM_SEQS
    wire = fast_loop(control)
    assert (wire["possible"], wire["active"], wire["inactiveReason"]) == (True, False, "Refused")
    assert detail in str(wire["inactiveDetail"])


def facts_of_a_pipeline() -> VllmFacts:
    return VllmFacts(
        engine_version="0.32.0",
        method="draft_model",
        runner=Runner.V1,
        max_num_seqs=MAX_NUM_SEQS,
        num_speculative_tokens=max(CANDIDATES),
        data_parallel_size=1,
        pipeline_parallel_size=2,
    )


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda scheduler: a_control(scheduler, counted=False), "steps are not counted"),
        (lambda scheduler: a_control(scheduler, facts=facts_of_a_pipeline()), "pipeline parallelism"),
        (lambda scheduler: a_control(scheduler, facts=some_facts(method=None)), "without speculation"),
    ],
)
def test_an_engine_that_takes_no_cost_model_says_so_before_one_is_pushed(
    scheduler: FakeScheduler, make: Callable[[FakeScheduler], EngineCoreControl], reason: str
) -> None:
    wire = fast_loop(make(scheduler))
    assert (wire["possible"], wire["inactiveReason"]) == (False, "Impossible")
    assert reason in str(wire["reason"])


@pytest.mark.usefixtures("told")
def test_without_the_counting_the_schedule_decides_until_the_next_push(
    control: EngineCoreControl, scheduler: FakeScheduler
) -> None:
    push = a_push(cost_model=a_cost_model())
    control.put(push)
    control.measure(enabled=False)
    assert looked_up(scheduler) == [3] * MAX_NUM_SEQS
    assert why_not(control) == (False, "NotCounted")
    control.put(push)
    assert why_not(control) == (False, "NotCounted")
    control.measure(enabled=True)
    control.put(push)
    assert looked_up(scheduler) == [1] * MAX_NUM_SEQS


def steps_that_disagree(control: EngineCoreControl, monkeypatch: pytest.MonkeyPatch) -> None:
    def add(self: Agreement, *_: object) -> None:
        self.broken = "steps of K=5 last 2.00 times what the cost model says"

    monkeypatch.setattr(Agreement, "add", add)
    control.after_step(Step(8, 5, mixed=False, seconds=0.1, emitted_tokens=8))
    monkeypatch.undo()


@pytest.mark.usefixtures("told")
def test_a_cost_model_that_the_engines_steps_disagree_with_is_dropped_until_another_comes(
    control: EngineCoreControl, scheduler: FakeScheduler
) -> None:
    push = a_push(cost_model=a_cost_model())
    control.put(push)
    with pytest.MonkeyPatch.context() as patched:
        steps_that_disagree(control, patched)
    assert looked_up(scheduler) == [3] * MAX_NUM_SEQS
    control.put(push)
    wire = fast_loop(control)
    assert (wire["active"], wire["inactiveReason"]) == (False, "Disagrees")
    assert "2.00 times" in str(wire["inactiveDetail"])
    control.put(a_push(epoch=2, cost_model=a_cost_model(per_draft=0.004)))
    assert looked_up(scheduler) == [1] * MAX_NUM_SEQS


def test_steps_with_prompts_and_the_step_after_a_change_of_k_are_not_compared(
    control: EngineCoreControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []
    monkeypatch.setattr(Agreement, "add", lambda _, k, *__: compared.append(k))
    control.put(a_push(cost_model=a_cost_model()))
    control.after_step(Step(8, 1, mixed=True, seconds=0.1, emitted_tokens=8))
    control.after_step(Step(8, 2, mixed=False, seconds=0.1, emitted_tokens=8, prefill_tokens=100))
    control.after_step(Step(8, 3, mixed=False, seconds=0.1, emitted_tokens=8))
    assert compared == [3]


# A failure of the fast loop costs the fast loop.


def raising(*_: object, **__: object) -> int:
    raise RuntimeError("broken")


def test_a_rule_that_fails_leaves_the_schedule_in_force(
    control: EngineCoreControl, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.put(a_push(cost_model=a_cost_model()))
    monkeypatch.setattr(FastLoop, "choose", raising)
    assert looked_up(scheduler) == [3] * MAX_NUM_SEQS
    state = control.state()
    assert "RuntimeError: broken" in str(state["fastLoop"]["reason"])
    assert any("fast loop failed" in problem for problem in state["problems"])
    assert control.measurement()["hookFailures"] == 1
    assert state["liveTuning"]["possible"]


def test_a_k_that_the_engine_cannot_run_is_never_looked_up(
    control: EngineCoreControl, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.put(a_push(cost_model=a_cost_model()))
    monkeypatch.setattr(FastLoop, "choose", lambda *_: 4)
    assert looked_up(scheduler) == [3] * MAX_NUM_SEQS
    assert "chose K=4" in str(fast_loop(control)["reason"])


def test_a_comparison_that_fails_ends_the_fast_loop_alone(
    control: EngineCoreControl, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    control.put(a_push(cost_model=a_cost_model()))
    monkeypatch.setattr(Agreement, "add", raising)
    control.after_step(Step(8, 3, mixed=False, seconds=0.1, emitted_tokens=8))
    assert looked_up(scheduler) == [3] * MAX_NUM_SEQS
    assert control.state()["measuring"]


@pytest.mark.usefixtures("told")
def test_where_counting_fails_there_is_no_fast_loop(
    control: EngineCoreControl, scheduler: FakeScheduler
) -> None:
    control.put(a_push(cost_model=a_cost_model()))
    control.measuring_failed(RuntimeError("broken"))
    assert looked_up(scheduler) == [3] * MAX_NUM_SEQS
    assert not fast_loop(control)["possible"]
