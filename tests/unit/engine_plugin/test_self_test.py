"""The verdict of the self-test, as the engine core forms it."""

from __future__ import annotations

from outrider_engine.control.self_test import SELF_TEST_SECONDS, SelfTest, TrialResult
from outrider_engine.counting.measure import Step
from outrider_protocol.engine_state import SelfTestState
from tests.unit.engine_plugin.factories import LAUNCHED, a_step

CAPTURED = frozenset({0, 3, 5})


def begun(captured: frozenset[int] = CAPTURED) -> SelfTest:
    self_test, _ = SelfTest().begun(captured, obstacle=None, now=10.0)
    return self_test


def steps_there_and_back(k: int) -> list[Step]:
    """0 -> k -> 0 -> k -> 0 as an engine runs it that follows: one step of each change is mixed."""
    there = [a_step(batch=1, k=0)] * 3
    at = [a_step(batch=1, k=k, mixed=True), *[a_step(batch=1, k=k)] * 2]
    back = [a_step(batch=1, k=0, mixed=True), a_step(batch=1, k=0)]
    return [*there, *at, *back, a_step(batch=1, k=0), *at, *back]


def tried(
    self_test: SelfTest,
    k: int,
    *,
    tokens: tuple[int, ...] = (1, 2, 3, 4),
    steps: list[Step] | None = None,
    fault: str | None = None,
    tied: bool = False,
) -> SelfTest:
    self_test = self_test.with_trial(k, 10.0)
    for step in steps_there_and_back(k) if steps is None else steps:
        self_test = self_test.after(step)
    return self_test.judged(TrialResult(numSpeculativeTokens=k, tokens=list(tokens), fault=fault, tied=tied))


def test_each_captured_k_is_tried_after_the_smallest() -> None:
    _, trials = SelfTest().begun(CAPTURED, obstacle=None, now=10.0)
    assert [trial["numSpeculativeTokens"] for trial in trials] == [0, 3, 5]


def test_a_request_is_long_enough_even_when_every_draft_is_accepted() -> None:
    _, trials = SelfTest().begun(CAPTURED, obstacle=None, now=10.0)
    for trial in trials[1:]:
        # The first step of a slice still has the drafts of the slice before.
        k = trial["numSpeculativeTokens"]
        most_per_step = [1, 1, 1, *[1, k + 1, k + 1], *[k + 1, 1, 1], *[1, k + 1, k + 1], *[k + 1, 1]]
        assert len(most_per_step) == len(steps_there_and_back(k))
        assert trial["tokens"] >= sum(most_per_step)
    assert trials[0]["tokens"] == max(trial["tokens"] for trial in trials)


def test_only_one_front_end_runs_it() -> None:
    running = begun()
    again, trials = running.begun(CAPTURED, obstacle=None, now=11.0)
    assert (again, trials) == (running, [])


def test_an_engine_that_cannot_be_tuned_skips_it_and_says_why() -> None:
    skipped, trials = SelfTest().begun(frozenset(), obstacle="no speculation", now=10.0)
    assert trials == []
    assert dict(skipped.to_wire()) == {"state": "Skipped", "detail": "no speculation", "failedK": []}


def test_a_trial_goes_from_the_smallest_k_to_its_own_and_back() -> None:
    self_test = begun().with_trial(3, 10.0)
    seen = []
    for step in steps_there_and_back(3):
        assert self_test.trial is not None
        seen.append(self_test.trial.over(LAUNCHED)[1])
        self_test = self_test.after(step)
    assert seen == [0, 0, 0, 3, 3, 3, 0, 0, 0, 3, 3, 3, 0, 0]


def test_it_passes_when_every_trial_does() -> None:
    self_test = begun()
    for k in (0, 3, 5):
        self_test = tried(self_test, k)
    closed = self_test.closed(None, now=11.5)
    assert (closed.state, closed.failed, closed.trial) == (SelfTestState.PASSED, frozenset(), None)
    assert "1.5 s" in closed.to_wire()["detail"]


def test_a_fault_fails_its_k_and_no_other() -> None:
    self_test = tried(tried(tried(begun(), 0), 3, fault="RuntimeError: draft"), 5)
    closed = self_test.closed(None, now=11.0)
    assert (closed.state, closed.failed) == (SelfTestState.FAILED, frozenset({3}))
    assert "K=3: RuntimeError: draft" in closed.to_wire()["detail"]
    assert closed.to_wire()["failedK"] == [3]


def test_an_engine_that_ignores_k_fails() -> None:
    self_test = tried(tried(begun(), 0), 3, steps=[a_step(batch=1, k=0)] * 20)
    assert self_test.failed == {3}


def test_an_engine_that_does_not_come_back_fails() -> None:
    self_test = tried(tried(begun(), 0), 3, steps=steps_there_and_back(3)[:6])
    assert self_test.failed == {3}


def test_other_greedy_tokens_fail_their_k() -> None:
    self_test = tried(tried(tried(begun(), 0), 3, tokens=(1, 2, 9, 9)), 5)
    closed = self_test.closed(None, now=11.0)
    assert (closed.state, closed.failed) == (SelfTestState.FAILED, frozenset({3}))
    assert "K=3: its greedy tokens differ from 2 on from those with K=0" in closed.to_wire()["detail"]


def test_answers_that_part_at_a_tie_are_told_and_are_no_failure() -> None:
    self_test = tried(tried(begun(), 0), 3, tokens=(1, 2, 9, 9), tied=True)
    closed = self_test.closed(None, now=11.0)
    assert (closed.state, closed.failed) == (SelfTestState.PASSED, frozenset())
    assert "K=3: two tokens tie at 2" in closed.to_wire()["detail"]


def test_a_k_that_is_refused_from_the_start_is_not_tried_and_not_fallen_back_to() -> None:
    refusing = SelfTest(faults={0: "the release answers incorrectly"})
    assert refusing.obstacle is None
    running, trials = refusing.begun(CAPTURED, obstacle=None, now=10.0)
    assert [trial["numSpeculativeTokens"] for trial in trials] == [3, 5]
    assert running.smallest == 3
    closed = tried(running, 5).closed(None, now=11.0)
    assert "K=0: the release answers incorrectly" in closed.to_wire()["detail"]


def test_where_every_k_is_refused_nothing_is_tried() -> None:
    refusing = SelfTest(faults=dict.fromkeys(CAPTURED, "wrong"))
    closed, trials = refusing.begun(CAPTURED, obstacle=None, now=10.0)
    assert (closed.state, trials) == (SelfTestState.SKIPPED, [])


def test_long_drafts_go_there_and_back_once_so_that_a_request_fits_a_small_context() -> None:
    _, trials = SelfTest().begun(frozenset({0, 8, 9, 31}), obstacle=None, now=10.0)
    assert max(trial["tokens"] for trial in trials) < 200


def test_without_the_smallest_k_there_is_nothing_to_fall_back_to() -> None:
    assert tried(begun(), 0, fault="stuck").closed(None, now=11.0).obstacle
    assert tried(begun(), 3, fault="stuck").closed(None, now=11.0).obstacle is None


def test_a_self_test_that_could_not_be_finished_leaves_no_k_to_trust() -> None:
    closed = begun().closed("the front end stopped", now=11.0)
    assert closed.state is SelfTestState.FAILED
    assert "the front end stopped" in str(closed.obstacle)


def test_a_self_test_that_nobody_closes_fails_and_gives_the_table_back() -> None:
    self_test = begun().with_trial(3, 10.0)
    assert self_test.at(10.0 + SELF_TEST_SECONDS - 1) == self_test
    late = self_test.at(10.0 + SELF_TEST_SECONDS)
    assert (late.state, late.trial) == (SelfTestState.FAILED, None)
