"""Answers in JSON and tool calls: their form, and what drafts changed of it."""

from __future__ import annotations

import pytest

from outrider.verify.greedy import Comparison, Step
from outrider.verify.result import Result, Verdict
from outrider.verify.structured import (
    QUESTIONS,
    TOKENS,
    Form,
    StructuredAnswer,
    ToolCall,
    fault,
    request_part,
    structured,
)

FINDING = '{"language": "go", "severity": "low", "line": 9, "tags": ["race"]}'
ORDERS = ToolCall("list_orders", '{"customer": 12, "status": "open"}')


def an_answer(
    tokens: str = "ab", content: str = "", *calls: ToolCall, cut: bool = False, error: str | None = None
) -> StructuredAnswer:
    steps = [Step(each, {each: -0.1}) for each in tokens]
    return StructuredAnswer(steps, content, calls, cut, error)


def test_an_answer_of_the_schema_has_no_fault() -> None:
    assert fault(Form.JSON, an_answer("ab", FINDING)) is None


@pytest.mark.parametrize(
    "content",
    [
        FINDING[:-1],
        FINDING.replace("go", "cobol"),
        FINDING.replace("9", '"9"'),
        FINDING.replace("9", "90000"),
        FINDING.replace('["race"]', "[]"),
        FINDING.replace("{", '{"more": 1, '),
        "",
    ],
)
def test_an_answer_of_another_schema_has_a_fault(content: str) -> None:
    assert fault(Form.JSON, an_answer("ab", content)) is not None


def test_the_form_of_a_cut_answer_is_unknown() -> None:
    assert fault(Form.JSON, an_answer("ab", FINDING[:9], cut=True)) is None


@pytest.mark.parametrize(
    ("calls", "sound"),
    [
        ((), True),
        ((ORDERS,), True),
        ((ORDERS, ToolCall("list_orders", '{"customer": 12, "status": "lost"}')), False),
        ((ToolCall("list_order", ORDERS.arguments),), False),
        ((ToolCall("list_orders", ORDERS.arguments[:-1]),), False),
    ],
    ids=["none", "sound", "the second has no such status", "no such tool", "no JSON"],
)
def test_every_tool_call_is_checked_by_name_and_arguments(calls: tuple[ToolCall, ...], sound: bool) -> None:
    assert (fault(Form.TOOL_CALLS, an_answer("ab", "", *calls)) is None) is sound


def test_the_shortest_tokens_of_the_longest_finding_fit() -> None:
    longest = '{"language": "python", "severity": "medium", "line": 9999, "tags": ["%s", "%s", "%s"]}'
    assert len(longest % (("x" * 12,) * 3)) < TOKENS


def test_a_request_demands_its_form() -> None:
    assert request_part(Form.JSON).keys() == {"response_format"}
    assert request_part(Form.TOOL_CALLS)["tool_choice"] == "auto"
    assert all(len(questions) >= 8 for questions in QUESTIONS.values())


WHOLE, BROKEN = an_answer("ab", FINDING), an_answer("ab", FINDING[:-1])
OTHER = an_answer("ax", FINDING)
FAILED = an_answer("", error="the engine answers 500: grammar")


@pytest.mark.parametrize(
    ("plain", "again", "speculated", "verdict"),
    [
        (WHOLE, WHOLE, WHOLE, Verdict.LOSSLESS),
        (WHOLE, WHOLE, OTHER, Verdict.DEFECT),
        (WHOLE, WHOLE, FAILED, Verdict.DEFECT),
        (WHOLE, OTHER, OTHER, Verdict.UNDECIDED),
        (WHOLE, WHOLE, BROKEN, Verdict.BROKEN),
        (BROKEN, BROKEN, BROKEN, Verdict.LOSSLESS),
    ],
    ids=["equal", "other tokens", "fails", "differs from itself", "breaks", "broken without drafts, too"],
)
def test_the_verdict_on_structured_answers(
    plain: StructuredAnswer, again: StructuredAnswer, speculated: StructuredAnswer, verdict: Verdict
) -> None:
    found = structured(Form.JSON, [plain], [speculated], [again])
    assert Result("prod", "m", 5, 64, 0.25, (), (), (), (found,)).verdict is verdict


def test_an_engine_that_differs_from_itself_in_one_form_does_not_excuse_another() -> None:
    shaky = structured(Form.JSON, [WHOLE], [OTHER], [OTHER])
    wrong = structured(Form.TOOL_CALLS, [WHOLE], [OTHER], [WHOLE])
    assert Result("prod", "m", 5, 64, 0.25, (), (), (), (shaky, wrong)).verdict is Verdict.DEFECT
    assert wrong.greedy[0].comparison is Comparison.DEFECT
