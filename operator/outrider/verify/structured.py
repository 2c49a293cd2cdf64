"""Questions whose answers have a form: JSON by a schema, and tool calls.

Compares the answers with and without speculation, and checks their form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from outrider.api.validation_message import first_validation_message
from outrider.verify.greedy import TIE, Answer, Difference, compare, has_defect

TOKENS = 240
"""The longest answer. Forms below need fewer, also with one token per byte."""


class Form(StrEnum):
    """What an answer has to be."""

    JSON = "JSON by a schema"
    TOOL_CALLS = "tool calls"

    @property
    def capitalised(self) -> str:
        """At the beginning of a line."""
        return self[0].upper() + self[1:]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


_Word = Annotated[str, Field(max_length=12)]


class Finding(_Form):
    """The schema of all questions for JSON: choices, a bounded number and a bounded list."""

    language: Literal["python", "go", "rust", "sql"]
    severity: Literal["low", "medium", "high"]
    line: Annotated[int, Field(ge=1, le=9999)]
    tags: Annotated[tuple[_Word, ...], Field(min_length=1, max_length=3)]


class _Weather(_Form):
    city: str
    unit: Literal["celsius", "fahrenheit"]


class _Orders(_Form):
    customer: int
    status: Literal["open", "paid", "returned"]


class _Meeting(_Form):
    title: str
    weekday: Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
    minutes: int


_TOOLS: Mapping[str, tuple[str, type[_Form]]] = {
    "get_weather": ("The weather of a city.", _Weather),
    "list_orders": ("The orders of a customer, by their number.", _Orders),
    "plan_meeting": ("Put a meeting into the calendar.", _Meeting),
}

QUESTIONS: Mapping[Form, Sequence[str]] = {
    Form.JSON: (
        "Report as JSON: main.py, line 12, an unused import.",
        "Report as JSON: query.sql, line 3, user input inside a statement.",
        "Report as JSON: server.go, line 240, an error is ignored.",
        "Report as JSON: lib.rs, line 77, a panic in a library.",
        "Report as JSON: train.py, line 1034, a file is never closed.",
        "Report as JSON: report.sql, line 58, a join without an index.",
        "Report as JSON: cache.go, line 9, a data race.",
        "Report as JSON: parser.rs, line 410, a slow copy.",
    ),
    Form.TOOL_CALLS: (
        "What is the weather in Oslo, in celsius?",
        "Which orders of customer 4711 are open?",
        "Plan a meeting Budget review on Tuesday for 45 minutes.",
        "What is the weather in Austin, in fahrenheit?",
        "Which orders of customer 12 were returned?",
        "Plan a meeting Design of the cache on Friday for 90 minutes.",
        "What is the weather in Lagos and in Lima, in celsius?",
        "Show the paid orders of customer 300, and plan a meeting about them on Monday, 30 minutes.",
    ),
}


def request_part(form: Form) -> dict[str, JsonValue]:
    """What a chat request says beside its messages, so that its answer has this form."""
    if form is Form.JSON:
        schema: JsonValue = {"name": "finding", "schema": Finding.model_json_schema(), "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    tools: list[JsonValue] = [
        {
            "type": "function",
            "function": {"name": name, "description": words, "parameters": shape.model_json_schema()},
        }
        for name, (words, shape) in _TOOLS.items()
    ]
    return {"tools": tools, "tool_choice": "auto"}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call, as the engine's parser read it."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class StructuredAnswer:
    """One greedy answer. cut: it reached `TOKENS`. error: the engine's refusal in place of an answer."""

    tokens: Answer
    content: str = ""
    calls: Sequence[ToolCall] = ()
    cut: bool = False
    error: str | None = None


def fault(form: Form, answer: StructuredAnswer) -> str | None:
    """Why an answer is not of its form; None: it is, or nothing can be said because it was cut.

    An answer without a tool call is sound: the model may decline.
    """
    if answer.error is not None:
        return answer.error
    if answer.cut:
        return None
    try:
        if form is Form.JSON:
            Finding.model_validate_json(answer.content)
        for call in answer.calls:
            if call.name not in _TOOLS:
                return f"a call of {call.name!r}, which is not a tool"
            _TOOLS[call.name][1].model_validate_json(call.arguments)
    except ValidationError as error:
        return first_validation_message(error, whole="answer")
    return None


@dataclass(frozen=True, slots=True)
class Structured:
    """The comparison of one form. K against K=0, and K=0 against itself, by question.

    again: empty where the model was not asked again, because nothing differs beyond ties.
    faults, plain_faults: of answers with drafts, and of the first answers without; None: of its form.
    cut: answers with drafts that reached `TOKENS`. omitted: why the model was not asked.
    """

    form: Form
    greedy: Sequence[Difference] = ()
    again: Sequence[Difference] = ()
    faults: Sequence[str | None] = ()
    plain_faults: Sequence[str | None] = ()
    cut: int = 0
    omitted: str | None = None

    @property
    def broken_by_drafts(self) -> Sequence[tuple[int, str]]:
        """Questions, counted from 1, whose answer has its form without drafts only, and the fault."""
        pairs = enumerate(zip(self.faults, self.plain_faults, strict=True), 1)
        return [(at, found) for at, (found, plain) in pairs if found is not None and plain is None]

    @property
    def differs(self) -> bool:
        """Whether drafts change tokens beyond ties."""
        return has_defect(self.greedy)

    @property
    def differs_from_itself(self) -> bool:
        """Whether tokens change beyond ties without drafts already."""
        return has_defect(self.again)


def structured(
    form: Form,
    plain: Sequence[StructuredAnswer],
    speculated: Sequence[StructuredAnswer],
    again: Sequence[StructuredAnswer] = (),
    *,
    tie: float = TIE,
) -> Structured:
    """Compare answers to the same questions. plain, again: without drafts; again is empty where the model was
    not asked again. tie: in nats."""
    return Structured(
        form,
        greedy=_compared(plain, speculated, tie),
        again=_compared(plain, again, tie) if again else (),
        faults=[fault(form, each) for each in speculated],
        plain_faults=[fault(form, each) for each in plain],
        cut=sum(each.cut for each in speculated),
    )


def _compared(
    left: Sequence[StructuredAnswer], right: Sequence[StructuredAnswer], tie: float
) -> Sequence[Difference]:
    return [compare(a.tokens, b.tokens, tie=tie) for a, b in zip(left, right, strict=True)]
