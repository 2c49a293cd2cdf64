"""The control of one engine core: what the scheduler's lookup holds, and what is said of it."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from outrider_engine.control import Fence
from outrider_engine.refusal import Reason, Refusal
from outrider_engine.support import EngineFacts, Runner
from outrider_engine.table import Table, parse_table
from tests.unit.engine_plugin.factories import (
    LAUNCHED,
    MAX_NUM_SEQS,
    STATIC,
    FakeClock,
    FakeScheduler,
    a_control,
    a_push,
    a_table,
    some_facts,
)


def lookup_of(scheduler: FakeScheduler) -> tuple[int, ...]:
    assert scheduler.dynamic_sd_lookup is not None
    return tuple(scheduler.dynamic_sd_lookup)


class Model(RuleBasedStateMachine):
    """Any mix of pushes, steps and time: the scheduler holds the newest leased table, or the static one."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler, self.clock = FakeScheduler(), FakeClock()
        self.control = a_control(self.scheduler, clock=self.clock)
        self.newest = Fence(-1, -1)
        self.newest_table = STATIC
        self.ends_at = 0.0

    @rule(
        term=st.integers(0, 2),
        epoch=st.integers(0, 2),
        k=st.sampled_from([0, 3, 4, 5]),
        lease_seconds=st.sampled_from([1.0, 10.0]),
    )
    def push(self, term: int, epoch: int, k: int, lease_seconds: float) -> None:
        fence, table = Fence(term, epoch), Table.constant(k)
        before = self.control.state()
        fits = fence > self.newest or (fence == self.newest and table == self.newest_table)
        try:
            self.control.put(a_push(term=term, epoch=epoch, table=table, lease_seconds=lease_seconds))
        except Refusal:
            assert k == 4 or not fits
            assert self.control.state() == before
        else:
            assert k != 4
            assert fits
            self.newest, self.newest_table = fence, table
            self.ends_at = self.clock.now + lease_seconds

    @rule(seconds=st.sampled_from([0.5, 5.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def a_step_uses_the_right_table(self) -> None:
        self.control.before_schedule()
        wanted = self.newest_table if self.clock.now < self.ends_at else STATIC
        assert lookup_of(self.scheduler) == wanted.dense(MAX_NUM_SEQS)

    @invariant()
    def the_state_tells_what_the_scheduler_uses(self) -> None:
        state = self.control.state()
        assert state["schedule"] is not None
        assert parse_table(state["schedule"]).dense(MAX_NUM_SEQS) == lookup_of(self.scheduler)


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


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
    def unreadable() -> Table:
        raise fault

    scheduler = FakeScheduler()
    state = a_control(scheduler, read_static=unreadable).state()
    assert lookup_of(scheduler) == Table.constant(0).dense(MAX_NUM_SEQS)
    assert any("static schedule" in problem for problem in state["problems"])
    assert state["liveTuning"]["possible"]


def test_a_static_table_with_a_k_that_was_not_launched_is_unusable() -> None:
    scheduler = FakeScheduler()
    state = a_control(scheduler, read_static=lambda: Table.constant(4)).state()
    assert lookup_of(scheduler) == Table.constant(0).dense(MAX_NUM_SEQS)
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
    answers: list[Table | None] = [STATIC]

    def read() -> Table | None:
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


def test_the_state_tells_a_lookup_that_someone_else_changed() -> None:
    scheduler = FakeScheduler()
    control = a_control(scheduler)
    control.put(a_push(table=Table.constant(3)))
    scheduler.dynamic_sd_lookup = [0] + [1] * MAX_NUM_SEQS
    assert control.state()["schedule"] == Table.constant(1).to_wire()


def test_the_list_that_a_step_holds_is_never_changed_in_place() -> None:
    scheduler = FakeScheduler()
    control = a_control(scheduler)
    held = scheduler.dynamic_sd_lookup
    assert held is not None
    control.put(a_push(table=Table.constant(5)))
    assert tuple(held) == STATIC.dense(MAX_NUM_SEQS)
    assert type(scheduler.dynamic_sd_lookup) is list


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
    assert control.state()["schedule"] == Table.constant(3).to_wire()


def test_an_engine_without_a_table_takes_none() -> None:
    scheduler = FakeScheduler(dynamic_sd_lookup=None)
    control = a_control(scheduler)
    with pytest.raises(Refusal) as refused:
        control.put(a_push())
    assert refused.value.reason is Reason.LIVE_TUNING_IMPOSSIBLE
    assert scheduler.dynamic_sd_lookup is None
    assert (control.state()["schedule"], control.state()["capturedK"]) == (None, [])


@pytest.mark.parametrize(
    "facts",
    [
        some_facts(method=None),
        some_facts(method="suffix"),
        some_facts(method="dspark"),
        some_facts(runner=Runner.V2),
        some_facts(data_parallel_size=2),
    ],
    ids=["no speculation", "asserts on K", "V2 only", "V2 runner", "data parallel"],
)
def test_an_engine_that_cannot_follow_k_refuses_with_its_reason(facts: EngineFacts) -> None:
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
