"""One stand-in, on made-up outputs of the scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from outrider_twin.core import Core
from outrider_twin.draws import prompt_key, tokens
from outrider_twin.faults import Faults, Kind
from outrider_twin.settings import Behaviour, Settings
from tests.unit.twin.factories import PROMPT, a_new_request, an_output, some_settings

KEY = prompt_key(PROMPT, 0)
LENGTH = len(PROMPT)


def a_core(settings: Settings | None = None, *, drafts: int | None = 3) -> Core:
    return Core(settings or some_settings(), drafts=drafts, pod="engine-0", now=0.0)


def a_prompt(**changes: Any) -> Any:
    """The whole prompt of a request at once."""
    return an_output(scheduled={"a": LENGTH}, new=[a_new_request(**changes)])


def decoding(said: int, *, drafts: int = 0, k: int = 0) -> Any:
    """The next step of the request, which has said so many tokens."""
    return an_output(
        scheduled={"a": 1 + drafts},
        cached={"a": (LENGTH + said - 1, said)},
        drafts={"a": drafts} if drafts else None,
        k=k,
    )


def test_a_prompt_gives_the_first_token() -> None:
    step = a_core().plan(a_prompt(), 0.0).step
    assert step.tokens == [tokens(KEY, 0, 1)]
    assert (step.load.decoding, step.load.prompt_tokens, step.load.tokens) == (1, LENGTH - 1, LENGTH)


def test_a_part_of_a_prompt_gives_none() -> None:
    core = a_core()
    part = core.plan(an_output(scheduled={"a": 30}, new=[a_new_request()]), 0.0).step
    assert part.tokens == [[]]
    assert (part.load.decoding, part.load.requests, part.load.prompt_tokens) == (0, 1, 30)
    rest = core.plan(an_output(scheduled={"a": LENGTH - 30}, cached={"a": (30, 0)}), 0.0).step
    assert rest.tokens == [tokens(KEY, 0, 1)]
    assert rest.load.kv_tokens == 30


def test_drafts_are_verified_one_after_the_other_and_one_token_comes_besides() -> None:
    core, said = a_core(), 1
    core.plan(a_prompt(), 0.0)
    for _ in range(50):
        (new,) = core.plan(decoding(said, drafts=3, k=3), 0.0).step.tokens
        assert 1 <= len(new) <= 4
        assert new == tokens(KEY, said, len(new))
        said += len(new)
    assert 1.4 < (said - 1) / 50 < 2.4  # 1.875 by the curve


def test_two_requests_in_other_batches_have_the_same_text() -> None:
    both, alone = a_core(), a_core()
    pair = an_output(
        scheduled={"b": 3, "a": LENGTH}, new=[a_new_request("b", prompt=[1, 2, 3]), a_new_request()]
    )
    assert both.plan(pair, 0.0).step.tokens[1] == alone.plan(a_prompt(), 0.0).step.tokens[0]


def test_a_resumed_request_goes_on_where_the_scheduler_has_it() -> None:
    core = a_core()
    core.plan(a_prompt(), 0.0)
    core.plan(decoding(1), 0.0)
    resumed = an_output(scheduled={"a": LENGTH + 1}, cached={"a": (0, 1)}, resumed=["a"])
    assert core.plan(resumed, 0.0).step.tokens == [tokens(KEY, 1, 1)]


def test_a_request_that_comes_again_as_a_new_one_keeps_its_text() -> None:
    text = [*PROMPT, *tokens(KEY, 0, 5)]
    again = an_output(scheduled={"a": len(text)}, new=[a_new_request(so_far=text)])
    assert a_core().plan(again, 0.0).step.tokens == [tokens(KEY, 5, 1)]


def test_the_class_of_a_request_is_what_it_says_or_that_of_its_prompt() -> None:
    engine = {"step_time": {"fixed": 0.01}, "survival": {"never": [0.0], "always": [1.0]}, "kv_tokens": 9}
    for text, gained in (("never", 1), ("always", 4)):
        core = a_core(Settings.model_validate({"engine": engine}))
        core.plan(a_prompt(text=text), 0.0)
        assert len(core.plan(decoding(1, drafts=3), 0.0).step.tokens[0]) == gained
    given = a_core(Settings.model_validate({"engine": engine, "texts": {"always": 1}}))
    given.plan(a_prompt(), 0.0)
    assert len(given.plan(decoding(1, drafts=3), 0.0).step.tokens[0]) == 4


def test_steps_are_due_one_after_the_other_by_the_table() -> None:
    core = a_core()
    first = core.plan(a_prompt(), 100.0)
    second = core.plan(decoding(1, k=2), 100.001)
    assert first.due == pytest.approx(100.01)
    assert second.due == pytest.approx(100.01 + 0.012)


def test_once_all_requests_have_finished_the_next_step_starts_afresh() -> None:
    core = a_core()
    core.plan(a_prompt(), 100.0)
    output = an_output(scheduled={"b": LENGTH}, new=[a_new_request("b")], finished=["a"])
    assert core.plan(output, 100.013).due == pytest.approx(100.023)
    assert core.report(asynchronous=True)["lost"] == 0


def test_full_length_drafting_costs_the_time_of_the_largest_k() -> None:
    core = a_core(some_settings(faults={"draft_full_length": True}))
    assert core.plan(a_prompt(), 100.0).due == pytest.approx(100.013)


def test_a_fault_and_a_factor_can_come_while_the_engine_runs() -> None:
    core = a_core()
    assert core.plan(a_prompt(), 100.0).fault is None
    core.behave(Behaviour(time_factor=2.0))
    core.behave(Behaviour(faults=Faults.model_validate({"crash": {"k": 2}})))
    assert core.plan(decoding(1), 200.0).fault is None
    assert core.plan(decoding(1, k=2), 300.0).fault is Kind.CRASH
    assert core.report(asynchronous=True)["time_factor"] == 2.0


def test_the_report_has_the_delay() -> None:
    core = a_core()
    due = core.plan(a_prompt(), 100.0).due
    core.ended(due, due + 0.05)
    core.plan(decoding(1), due + 0.05)
    report = core.report(asynchronous=True)
    assert report["steps"] == 2
    assert (report["scheduled"], report["lost"]) == pytest.approx((0.02, 0.05))
    assert report["latest"] == pytest.approx(0.05)
    assert report["ratio"] == pytest.approx(2.5)
