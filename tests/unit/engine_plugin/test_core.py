"""The control of one engine core: what the scheduler's lookup holds, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from outrider_engine.control import core
from outrider_engine.control.parsing import parse_schedule
from outrider_engine.control.probe import Probe
from outrider_engine.control.self_test import SELF_TEST_SECONDS, TrialResult
from outrider_engine.counting.measure import Step
from outrider_engine.vllm_adapter.support import VllmFacts
from outrider_protocol.control_api import Fence, ProbeOrder, Reason, Refusal, Slice
from outrider_protocol.cost_model import CostModel
from outrider_protocol.releases import Runner
from outrider_protocol.schedule import Schedule
from tests.unit.engine_plugin.factories import (
    LAUNCHED,
    MAX_NUM_SEQS,
    STATIC,
    FakeClock,
    FakeScheduler,
    a_control,
    a_cost_model,
    a_probe,
    a_push,
    a_step,
    a_table,
    some_facts,
)


def lookup_of(scheduler: FakeScheduler) -> tuple[int, ...]:
    assert scheduler.lookup is not None
    return tuple(scheduler.lookup)


CHEAP, DEAR = (a_cost_model(candidates=(1, 3), max_k=1, per_draft=cost) for cost in (0.001, 0.002))
"""They leave the fast loop no choice but 1, which no table here has."""
OF_ANOTHER_LAUNCH = a_cost_model(revision="eagle3/16/5")


class Model(RuleBasedStateMachine):
    """Any mix of pushes, probes, steps and time: the scheduler holds the newest leased table, or the
    static one, and on top of it a probe until its slices or its deadline end it. With a cost model the fast
    loop chooses in place of the table, and not of the probe."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler, self.clock = FakeScheduler(), FakeClock()
        self.control = a_control(self.scheduler, clock=self.clock)
        self.newest = Fence(-1, -1)
        self.newest_table = STATIC
        self.newest_model: CostModel | None = None
        self.ends_at = 0.0
        self.probe_ends_at = 0.0
        self.probes = 0

    @rule(
        term=st.integers(0, 2),
        epoch=st.integers(0, 2),
        k=st.sampled_from([0, 3, 4, 5]),
        lease_seconds=st.sampled_from([1.0, 10.0]),
        model=st.sampled_from([None, CHEAP, DEAR, OF_ANOTHER_LAUNCH]),
    )
    def push(self, term: int, epoch: int, k: int, lease_seconds: float, model: CostModel | None) -> None:
        fence, table = Fence(term, epoch), Schedule.constant(k)
        before = self.control.state()
        same = (table, model) == (self.newest_table, self.newest_model)
        fits = fence > self.newest or (fence == self.newest and same)
        push = a_push(term=term, epoch=epoch, table=table, lease_seconds=lease_seconds, cost_model=model)
        try:
            self.control.put(push)
        except Refusal:
            assert k == 4 or not fits
            assert self.control.state() == before
        else:
            assert k != 4
            assert fits
            if fence != self.newest:
                self.probe_ends_at = 0.0
            self.newest, self.newest_table, self.newest_model = fence, table, model
            self.ends_at = self.clock.now + lease_seconds

    @rule(k=st.sampled_from([1, 2, 4]), old=st.booleans(), deadline_seconds=st.sampled_from([0.5, 15.0]))
    def probe(self, k: int, old: bool, deadline_seconds: float) -> None:
        self.probes += 1
        fence = Fence(max(0, self.newest.term), max(0, self.newest.epoch - old))
        request = a_probe(
            Slice(k, steps=2),
            Slice(1, seconds=0.5),
            term=fence.term,
            epoch=fence.epoch,
            name=str(self.probes),
            deadline_seconds=deadline_seconds,
        )
        before = self.control.state()
        fits = fence == self.newest and self.clock.now < self.ends_at and k != 4
        try:
            self.control.start_probe(request)
        except Refusal:
            assert not fits or (before["probe"] is not None and before["probe"]["running"])
            assert self.control.state() == before
        else:
            assert fits
            self.probe_ends_at = self.clock.now + deadline_seconds

    @rule(batch=st.sampled_from([1, 8]), k=st.sampled_from([1, 2, 3]), mixed=st.booleans())
    def step(self, batch: int, k: int, mixed: bool) -> None:
        self.control.before_schedule()
        self.control.after_step(a_step(batch=batch, k=k, mixed=mixed, seconds=0.3))

    @rule(seconds=st.sampled_from([0.5, 5.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def wanted(self) -> Schedule:
        return self.newest_table if self.clock.now < self.ends_at else STATIC

    @invariant()
    def a_step_uses_the_right_table(self) -> None:
        self.control.before_schedule()
        probe, found = self.control.state()["probe"], lookup_of(self.scheduler)
        wanted = self.wanted().dense(MAX_NUM_SEQS)
        if probe is None or not probe["running"]:
            assert found == wanted
        else:
            k = probe["results"][-1]["numSpeculativeTokens"]
            assert found == (*wanted[:7], *(k,) * 6, *wanted[13:])

    @invariant()
    def the_fast_loop_has_every_batch_that_no_probe_holds(self) -> None:
        self.control.before_schedule()
        state, lookup = self.control.state(), self.scheduler.lookup
        assert lookup is not None
        leased = self.clock.now < self.ends_at
        active = leased and self.newest_model in (CHEAP, DEAR)
        assert state["fastLoop"]["active"] == active
        probe = state["probe"]
        held = range(7, 13) if probe is not None and probe["running"] else range(0)
        for batch in range(1, MAX_NUM_SEQS + 1):
            entry = tuple(lookup)[batch]
            assert lookup[batch] == (1 if active and batch not in held else entry)

    @invariant()
    def no_probe_outlives_its_deadline_its_table_or_its_lease(self) -> None:
        probe = self.control.state()["probe"]
        if probe is not None and probe["running"]:
            assert self.clock.now < min(self.probe_ends_at, self.ends_at)

    @invariant()
    def the_state_tells_the_table_beneath_a_probe(self) -> None:
        state = self.control.state()
        assert state["schedule"] is not None
        assert parse_schedule(state["schedule"]).dense(MAX_NUM_SEQS) == self.wanted().dense(MAX_NUM_SEQS)


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=25)


def test_the_static_table_replaces_the_launch_table_at_once() -> None:
    scheduler = FakeScheduler()
    state = a_control(scheduler).state()
    assert lookup_of(scheduler) == STATIC.dense(MAX_NUM_SEQS)
    assert (state["source"], state["schedule"]) == ("Static", STATIC.to_wire())
    assert state["capturedK"] == [0, 1, 2, 3, 5]


def test_without_a_static_file_the_launch_table_is_the_static_one() -> None:
    scheduler = FakeScheduler()
    state = a_control(scheduler, read_static=lambda: None).state()
    assert lookup_of(scheduler) == LAUNCHED
    assert (state["source"], state["problems"]) == ("Static", [])


@pytest.mark.parametrize(
    "fault", [FileNotFoundError("schedule.json"), Refusal(Reason.MALFORMED, "schedule must be a list")]
)
def test_an_unusable_static_table_means_the_smallest_k_and_is_told(fault: Exception) -> None:
    def unreadable() -> Schedule:
        raise fault

    scheduler = FakeScheduler()
    state = a_control(scheduler, read_static=unreadable).state()
    assert lookup_of(scheduler) == Schedule.constant(0).dense(MAX_NUM_SEQS)
    assert any("static schedule" in problem for problem in state["problems"])
    assert state["liveTuning"]["possible"]


def test_a_static_table_with_a_k_that_was_not_launched_is_unusable() -> None:
    scheduler = FakeScheduler()
    state = a_control(scheduler, read_static=lambda: Schedule.constant(4)).state()
    assert lookup_of(scheduler) == Schedule.constant(0).dense(MAX_NUM_SEQS)
    assert state["problems"]


def test_a_lapse_brings_the_static_table_of_that_moment() -> None:
    scheduler, clock = FakeScheduler(), FakeClock()
    files = [STATIC, a_table((4, 1), above=0)]
    control = a_control(scheduler, clock=clock, read_static=lambda: files.pop(0))
    control.put(a_push(lease_seconds=1))
    clock.advance(2)
    control.before_schedule()
    assert lookup_of(scheduler) == a_table((4, 1), above=0).dense(MAX_NUM_SEQS)


def test_a_static_file_that_broke_since_leaves_the_last_good_table() -> None:
    scheduler, clock = FakeScheduler(), FakeClock()
    answers: list[Schedule | None] = [STATIC]

    def read() -> Schedule | None:
        if not answers:
            raise FileNotFoundError("schedule.json")
        return answers.pop()

    control = a_control(scheduler, clock=clock, read_static=read)
    control.put(a_push(lease_seconds=1))
    clock.advance(2)
    assert control.state()["source"] == "Fallback"
    assert lookup_of(scheduler) == STATIC.dense(MAX_NUM_SEQS)
    assert control.state()["problems"]


def test_the_state_lets_a_lease_lapse_while_the_engine_is_idle() -> None:
    scheduler, clock = FakeScheduler(), FakeClock()
    control = a_control(scheduler, clock=clock)
    control.put(a_push(lease_seconds=1))
    clock.advance(1)
    state = control.state()
    assert (state["source"], state["schedule"], state["leaseRemainingSeconds"]) == (
        "Fallback",
        STATIC.to_wire(),
        None,
    )


def test_a_renewal_that_waited_for_a_step_is_heard_before_the_lease_lapses() -> None:
    """vLLM answers calls before it schedules, so no step is made with the static table in between."""
    scheduler, clock = FakeScheduler(), FakeClock()
    control = a_control(scheduler, clock=clock)
    push = a_push(table=Schedule.constant(3), lease_seconds=60)
    control.put(push)
    clock.advance(70)
    control.put(push)
    control.before_schedule()
    assert control.state()["source"] == "Pushed"
    assert lookup_of(scheduler) == Schedule.constant(3).dense(MAX_NUM_SEQS)


def test_the_state_tells_a_lookup_that_someone_else_changed() -> None:
    scheduler = FakeScheduler()
    control = a_control(scheduler)
    control.put(a_push(table=Schedule.constant(3)))
    scheduler.lookup = [0] + [1] * MAX_NUM_SEQS
    assert control.state()["schedule"] == Schedule.constant(1).to_wire()


def test_the_list_that_a_step_holds_is_never_changed_in_place() -> None:
    scheduler = FakeScheduler()
    control = a_control(scheduler)
    held = scheduler.lookup
    assert held is not None
    control.put(a_push(table=Schedule.constant(5)))
    assert tuple(held) == STATIC.dense(MAX_NUM_SEQS)
    assert type(scheduler.lookup) is list


def test_a_fault_in_the_step_hook_disables_it_and_says_so() -> None:
    scheduler, clock = FakeScheduler(), FakeClock()
    answers = [STATIC]
    control = a_control(scheduler, clock=clock, read_static=lambda: answers.pop())
    control.put(a_push(lease_seconds=1))
    clock.advance(2)
    control.before_schedule()
    state = control.state()
    assert lookup_of(scheduler) == STATIC.dense(MAX_NUM_SEQS)
    assert not state["liveTuning"]["possible"]
    assert "IndexError" in str(state["liveTuning"]["reason"])
    assert state["source"] == "Fallback"
    assert state["problems"]
    with pytest.raises(Refusal) as refused:
        control.put(a_push(term=9))
    assert refused.value.reason is Reason.LIVE_TUNING_IMPOSSIBLE


def test_a_scheduler_that_takes_no_table_goes_on_with_its_steps() -> None:
    class Sealed(FakeScheduler):
        sealed = False

        def __setattr__(self, name: str, value: object) -> None:
            if self.sealed:
                raise TypeError("sealed")
            super().__setattr__(name, value)

    scheduler, clock = Sealed(), FakeClock()
    control = a_control(scheduler, clock=clock)
    control.put(a_push(lease_seconds=1))
    Sealed.sealed = True
    clock.advance(2)
    control.before_schedule()
    assert not control.state()["liveTuning"]["possible"]
    assert control.state()["schedule"] == Schedule.constant(3).to_wire()


def test_an_engine_without_a_table_takes_none() -> None:
    scheduler = FakeScheduler(lookup=None)
    control = a_control(scheduler)
    with pytest.raises(Refusal) as refused:
        control.put(a_push())
    assert refused.value.reason is Reason.LIVE_TUNING_IMPOSSIBLE
    assert scheduler.lookup is None
    assert (control.state()["schedule"], control.state()["capturedK"]) == (None, [])


@pytest.mark.parametrize(
    "facts",
    [
        some_facts(method=None),
        some_facts(method="suffix"),
        some_facts(method="dspark"),
        replace(some_facts(runner=Runner.V2), engine_version="0.31.0"),
        some_facts(data_parallel_size=2),
    ],
    ids=["no speculation", "asserts on K", "V2 only", "V2 runner without K", "data parallel"],
)
def test_an_engine_that_cannot_follow_k_refuses_with_its_reason(facts: VllmFacts) -> None:
    control = a_control(FakeScheduler(), facts=facts)
    with pytest.raises(Refusal) as refused:
        control.put(a_push())
    assert refused.value.reason is Reason.LIVE_TUNING_IMPOSSIBLE
    assert control.state()["liveTuning"] == {"possible": False, "reason": refused.value.message}
    assert control.state()["source"] == "Static"


def test_a_lookup_of_another_length_is_not_touched() -> None:
    scheduler = FakeScheduler()
    with pytest.raises(ValueError, match="17 entries for 8 requests"):
        a_control(scheduler, facts=some_facts(max_num_seqs=8))
    assert lookup_of(scheduler) == LAUNCHED


def test_each_start_has_a_boot_id_of_its_own() -> None:
    first, second = a_control(FakeScheduler()), a_control(FakeScheduler())
    assert first.state()["bootId"] != second.state()["bootId"]


# Probes


def probing(*slices: Slice, low: int = 1, high: int | None = None) -> tuple[FakeScheduler, FakeClock, Any]:
    """An engine with K=3 pushed, and a probe that has just begun."""
    scheduler, clock = FakeScheduler(), FakeClock()
    control = a_control(scheduler, clock=clock)
    control.put(a_push(lease_seconds=30))
    control.start_probe(a_probe(*slices, low=low, high=high))
    return scheduler, clock, control


def test_a_probe_runs_its_slices_and_the_table_returns_by_itself() -> None:
    scheduler, _, control = probing(Slice(1, steps=1), Slice(5, steps=1))
    seen = [lookup_of(scheduler)[8]]
    for k in (1, 5):
        control.after_step(a_step(k=k))
        seen.append(lookup_of(scheduler)[8])
    assert seen == [1, 5, 3]
    assert control.state()["probe"]["reason"] == "Completed"


def test_a_renewal_does_not_end_a_probe() -> None:
    scheduler, _, control = probing(Slice(1, steps=5))
    state = control.put(a_push(lease_seconds=30))
    assert (state["probe"]["running"], state["schedule"]) == (True, Schedule.constant(3).to_wire())
    assert lookup_of(scheduler)[8] == 1


def test_a_push_of_another_table_ends_a_probe() -> None:
    scheduler, _, control = probing(Slice(1, steps=5))
    state = control.put(a_push(epoch=2, table=Schedule.constant(5)))
    assert (state["probe"]["running"], state["probe"]["reason"]) == (False, "Superseded")
    assert lookup_of(scheduler) == Schedule.constant(5).dense(MAX_NUM_SEQS)


def test_a_refused_push_leaves_the_probe_running() -> None:
    _, _, control = probing(Slice(1, steps=5))
    with pytest.raises(Refusal):
        control.put(a_push(epoch=2, table=Schedule.constant(4)))
    assert control.state()["probe"]["running"]


def test_a_probe_ends_with_the_lease_it_stands_on() -> None:
    scheduler, clock, control = probing(Slice(1, steps=5))
    control.put(a_push(lease_seconds=5))
    clock.advance(5)
    control.before_schedule()
    assert lookup_of(scheduler) == STATIC.dense(MAX_NUM_SEQS)
    assert control.state()["probe"]["reason"] == "LeaseLapsed"


def test_a_probe_ends_at_its_deadline_without_a_call() -> None:
    scheduler, clock, control = probing(Slice(1, steps=5))
    clock.advance(20)
    control.before_schedule()
    assert lookup_of(scheduler) == Schedule.constant(3).dense(MAX_NUM_SEQS)
    assert control.state()["probe"]["reason"] == "Deadline"


def test_the_same_probe_is_answered_and_not_run_again() -> None:
    _, _, control = probing(Slice(1, steps=1))
    control.after_step(a_step(k=1))
    state = control.start_probe(a_probe(Slice(1, steps=1), low=1, high=None))
    assert (state["probe"]["running"], state["probe"]["results"][0]["steps"]) == (False, 1)


def test_a_probe_before_the_last_one_is_not_run_again_either() -> None:
    _, clock, control = probing(Slice(1, steps=1))
    clock.advance(20)
    control.start_probe(a_probe(name="p2"))
    clock.advance(5)
    assert control.start_probe(a_probe())["probe"]["id"] == "p2"


def test_no_more_names_of_probes_are_kept_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "_MAX_PROBES_KNOWN", 2)
    control = a_control(FakeScheduler(), clock=(clock := FakeClock()))
    control.put(a_push(lease_seconds=1000))
    for name in ("p1", "p2", "p3"):
        control.start_probe(a_probe(name=name))
        clock.advance(20)
    assert not control.start_probe(a_probe(name="p2"))["probe"]["running"]  # type: ignore[index]
    assert control.start_probe(a_probe(name="p1"))["probe"]["running"]  # type: ignore[index]


def test_the_id_of_another_epoch_is_another_probe() -> None:
    _, _, control = probing(Slice(1, steps=1))
    control.put(a_push(epoch=2))
    assert control.start_probe(a_probe(epoch=2))["probe"]["running"]


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (a_probe(name="p2"), Reason.PROBE_RUNNING),
        (a_probe(epoch=0, name="p2"), Reason.STALE_EPOCH),
        (a_probe(epoch=2, name="p2"), Reason.STALE_EPOCH),
        (a_probe(term=0, name="p2"), Reason.STALE_EPOCH),
    ],
    ids=["another one runs", "older", "newer", "older term"],
)
def test_a_probe_out_of_turn_is_refused(request_: ProbeOrder, reason: Reason) -> None:
    _, _, control = probing(Slice(1, steps=5))
    before = control.state()
    with pytest.raises(Refusal) as refused:
        control.start_probe(request_)
    assert refused.value.reason is reason
    assert control.state() == before


def test_a_probe_without_a_live_lease_is_refused() -> None:
    clock = FakeClock()
    control = a_control(FakeScheduler(), clock=clock)
    for _ in range(2):
        with pytest.raises(Refusal) as refused:
            control.start_probe(a_probe())
        assert refused.value.reason is Reason.STALE_EPOCH
        control.put(a_push(lease_seconds=1))
        clock.advance(1)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (a_probe(Slice(4, steps=1)), Reason.NOT_CAPTURED),
        (a_probe(low=17, high=None), Reason.MALFORMED),
    ],
)
def test_a_probe_that_this_engine_cannot_run_is_refused(request_: ProbeOrder, reason: Reason) -> None:
    control = a_control(FakeScheduler())
    control.put(a_push())
    with pytest.raises(Refusal) as refused:
        control.start_probe(request_)
    assert refused.value.reason is reason
    assert control.state()["probe"] is None


def test_where_steps_are_not_counted_a_probe_is_refused() -> None:
    control = a_control(FakeScheduler(), counted=False)
    control.put(a_push())
    with pytest.raises(Refusal) as refused:
        control.start_probe(a_probe())
    assert refused.value.reason is Reason.LIVE_TUNING_IMPOSSIBLE


# Failures of one hook and not the other


def test_measuring_that_fails_leaves_the_table_and_its_lease() -> None:
    scheduler, clock, control = probing(Slice(1, steps=5))
    control.measuring_failed(KeyError("position"))
    state = control.state()
    assert (control.meter, state["measuring"], state["liveTuning"]["possible"]) == (None, False, True)
    assert any("KeyError" in problem for problem in state["problems"])
    assert control.measurement()["hookFailures"] == 1
    clock.advance(20)
    assert control.put(a_push(lease_seconds=5))["probe"]["reason"] == "Deadline"
    clock.advance(5)
    control.before_schedule()
    assert lookup_of(scheduler) == STATIC.dense(MAX_NUM_SEQS)


def test_a_table_hook_that_fails_leaves_the_measuring() -> None:
    scheduler, clock = FakeScheduler(), FakeClock()
    answers = [STATIC]
    control = a_control(scheduler, clock=clock, read_static=lambda: answers.pop())
    control.put(a_push(lease_seconds=1))
    clock.advance(2)
    control.before_schedule()
    assert not control.state()["liveTuning"]["possible"]
    assert control.meter is not None
    assert (control.state()["measuring"], control.measurement()["hookFailures"]) == (True, 1)


def test_a_probe_that_fails_at_a_step_gives_the_table_back(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, _, control = probing(Slice(1, steps=5))

    def broken(_self: Probe, _step: Step) -> Probe:
        raise ZeroDivisionError

    monkeypatch.setattr(Probe, "after", broken)
    control.after_step(a_step(k=1))
    assert lookup_of(scheduler) == STATIC.dense(MAX_NUM_SEQS)
    assert not control.state()["liveTuning"]["possible"]


def test_counting_is_paused_and_taken_up_again() -> None:
    control = a_control(FakeScheduler())
    assert not control.measure(enabled=False)["measuring"]
    assert control.meter is None
    assert control.measure(enabled=True)["measuring"]


def test_counting_can_begin_switched_off() -> None:
    control = a_control(FakeScheduler(), measuring=False)
    assert (control.meter, control.state()["measuring"]) == (None, False)
    assert control.measure(enabled=True)["measuring"]
    assert control.meter is not None


def test_what_cannot_be_counted_is_not_said_to_be() -> None:
    assert not a_control(FakeScheduler(), counted=False).state()["measuring"]


def test_what_cannot_be_counted_cannot_be_switched_on() -> None:
    control = a_control(FakeScheduler(), counted=False)
    with pytest.raises(Refusal):
        control.measure(enabled=True)


# The self-test, as it bears on the table


def self_tested(failing: set[int], *, read_static: Any = lambda: STATIC) -> tuple[FakeScheduler, Any]:
    scheduler = FakeScheduler()
    control = a_control(scheduler, read_static=read_static)
    for trial in control.startup.begin_self_test():
        k = trial["numSpeculativeTokens"]
        control.startup.begin_trial(k)
        for slice_k in (*(0, 0, 0, k, k, k) * 2, 0):
            control.after_step(a_step(batch=1, k=slice_k))
        fault = "it broke" if k in failing else None
        control.startup.end_trial(
            TrialResult(numSpeculativeTokens=k, tokens=[1] * 30, fault=fault, tied=False)
        )
    control.startup.end_self_test(None)
    return scheduler, control


def test_after_a_passed_self_test_the_static_table_is_in_force() -> None:
    scheduler, control = self_tested(set())
    assert control.state()["selfTest"]["state"] == "Passed"
    assert lookup_of(scheduler) == STATIC.dense(MAX_NUM_SEQS)
    assert control.put(a_push())["source"] == "Pushed"


def test_a_k_that_failed_is_in_no_table_from_then_on() -> None:
    _, control = self_tested({3})
    state = control.state()
    assert (state["selfTest"]["state"], state["selfTest"]["failedK"]) == ("Failed", [3])
    assert state["capturedK"] == [0, 1, 2, 3, 5]
    with pytest.raises(Refusal, match=r"K=\[3\] failed this engine's self-test"):
        control.put(a_push(table=Schedule.constant(3)))
    assert control.put(a_push(table=Schedule.constant(5)))["source"] == "Pushed"


def test_a_static_table_with_a_k_that_failed_gives_way_to_the_smallest() -> None:
    scheduler, control = self_tested({2})
    assert lookup_of(scheduler) == Schedule.constant(0).dense(MAX_NUM_SEQS)
    assert any("static schedule" in problem for problem in control.state()["problems"])


def test_when_the_smallest_k_fails_live_tuning_is_off() -> None:
    scheduler, control = self_tested({0})
    assert not control.state()["liveTuning"]["possible"]
    assert lookup_of(scheduler) == STATIC.dense(MAX_NUM_SEQS)
    with pytest.raises(Refusal) as refused:
        control.put(a_push())
    assert refused.value.reason is Reason.LIVE_TUNING_IMPOSSIBLE


def test_where_live_tuning_is_impossible_the_self_test_is_skipped() -> None:
    control = a_control(FakeScheduler(), facts=some_facts(method="suffix"))
    assert control.startup.begin_self_test() == []
    assert control.state()["selfTest"]["state"] == "Skipped"
    assert "suffix" in control.state()["selfTest"]["detail"]


def test_a_self_test_that_nobody_closes_gives_the_table_back() -> None:
    scheduler, clock = FakeScheduler(), FakeClock()
    control = a_control(scheduler, clock=clock)
    control.startup.begin_self_test()
    control.startup.begin_trial(3)
    assert lookup_of(scheduler) == Schedule.constant(0).dense(MAX_NUM_SEQS)
    clock.advance(SELF_TEST_SECONDS)
    control.before_schedule()
    assert lookup_of(scheduler) == STATIC.dense(MAX_NUM_SEQS)
    state = control.state()
    assert (state["selfTest"]["state"], state["liveTuning"]["possible"]) == ("Failed", False)


# What a release computes wrongly


def test_a_release_that_answers_wrongly_without_drafts_takes_no_table_with_k0() -> None:
    scheduler = FakeScheduler()
    facts = replace(some_facts(), engine_version="0.29.0", recurrent=True)
    control = a_control(scheduler, facts=facts, read_static=lambda: a_table((8, 3), above=0))
    assert lookup_of(scheduler) == Schedule.constant(1).dense(MAX_NUM_SEQS)
    state = control.state()
    assert (state["liveTuning"]["possible"], state["selfTest"]["failedK"]) == (True, [0])
    with pytest.raises(Refusal) as refused:
        control.put(a_push(table=Schedule.constant(0)))
    assert refused.value.reason is Reason.NOT_CAPTURED
    assert [trial["numSpeculativeTokens"] for trial in control.startup.begin_self_test()] == [1, 2, 3, 5]
