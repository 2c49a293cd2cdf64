"""Base of all models of the API: camelCase on the wire, and rules in two forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    JsonValue,
    model_validator,
)
from pydantic.alias_generators import to_camel, to_snake
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from outrider.api.text import shortened

ModelT = TypeVar("ModelT", bound="ApiModel")
_ATTRIBUTE = "__outrider_rule__"
_MAX_SHOWN = 60
"""Limit of a quoted text in a message, in characters."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One admission rule in the API server's form.

    ``cel``: true for valid objects. ``message``: names the field, its value, and what to write. ``field``:
    the path below the object with the rule, "" for the object itself.

    In the message ``{tuning.mode}`` stands for the value of that field, and ``{}`` for a text that has the
    rule itself. The API server inserts the values; the rule keeps the message with the names.
    """

    cel: str
    message: str
    field: str = ""

    def to_wire(self) -> dict[str, str]:
        """Return the entry of ``x-kubernetes-validations``."""
        wire = {"rule": self.cel, "message": self.message.replace("{}", "{value}")}
        if _PLACE.search(self.message):
            wire["messageExpression"] = self._expression()
        return wire | {"fieldPath": self.field} if self.field else wire

    def _expression(self) -> str:
        """Return the message as CEL that inserts the values.

        It uses ``format``, because the API server can estimate its cost, but not that of concatenated texts.
        """
        parts = _PLACE.split(self.message)
        text = "%s".join(part.replace("%", "%%").replace("'", "\\'") for part in parts[::2])
        return f"'{text}'.format([{', '.join(f'self.{path}' if path else 'self' for path in parts[1::2])}])"

    def message_for(self, subject: object) -> str:
        """Return the message with the values of ``subject``."""
        return _PLACE.sub(lambda found: _value_in_python(subject, found[1]), self.message)


_PLACE = re.compile(r"\{([A-Za-z.]*)\}")


def _value_in_python(subject: object, path: str) -> str:
    for name in filter(None, path.split(".")):
        subject = getattr(subject, to_snake(name))
    return str(subject)


def _cannot_say(_: str) -> str | None:
    return None


class RulesBroken(ValueError):
    """Violated rules, with one message each."""

    def __init__(self, messages: Sequence[str]) -> None:
        super().__init__("; ".join(messages))
        self.messages = tuple(messages)


@dataclass(frozen=True, slots=True)
class TextRule:
    """A rule on a text by regular expressions, with the same meaning in Python and in the API server.

    A text that begins with ``when`` must match ``pattern`` completely. ``message`` says what to write, with
    ``{}`` for the text. ``meant`` returns the probable intention, if there is one.
    """

    pattern: str
    message: str
    when: str = ""
    meant: Callable[[str], str | None] = _cannot_say

    def message_for(self, text: str) -> str:
        """Return the message about this text."""
        message, likely = self.message.replace("{}", shortened(text, _MAX_SHOWN)), self.meant(text)
        return message if likely is None else f"{message.partition(';')[0]}; did you mean {likely}?"

    def holds(self, text: str) -> bool:
        """Return True if the text is valid."""
        if re.match(self.when, text, re.ASCII) is None:
            return True
        return re.fullmatch(self.pattern, text, re.ASCII) is not None

    def to_wire(self) -> dict[str, str]:
        """Return the entry of ``x-kubernetes-validations``."""
        cel = f"self.matches('^({self.pattern})$')"
        return Rule(f"!self.matches('^{self.when}') || {cel}" if self.when else cel, self.message).to_wire()


def text_rules(*rules: TextRule) -> tuple[AfterValidator, FieldInfo, BeforeValidator]:
    """Return the rules of one text for both sides. A pattern in the schema would give another message."""

    def check(text: str) -> str:
        broken = next((rule for rule in rules if not rule.holds(text)), None)
        if broken is not None:
            raise ValueError(broken.message_for(text))
        return text

    def number(value: object) -> object:
        """Refuse a number that quotes would not make right, with the rule that they would break."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            check(str(value))
        return value

    wire: list[JsonValue] = [dict(rule.to_wire()) for rule in rules]
    schema = FieldInfo(json_schema_extra={"x-kubernetes-validations": wire})
    return AfterValidator(check), schema, BeforeValidator(number)


def rule(
    cel: str, message: str, *, field: str = ""
) -> Callable[[Callable[[ModelT], bool]], Callable[[ModelT], bool]]:
    """Make a method a rule: its body applies in Python, and ``cel`` in the API server.

    The operator also reads objects that were stored before a rule existed, so both sides must agree. The
    admission cases of the tests check each rule on both.
    """

    def mark(method: Callable[[ModelT], bool]) -> Callable[[ModelT], bool]:
        setattr(method, _ATTRIBUTE, Rule(cel, message, field))
        return method

    return mark


@cache
def _rules_of(kind: type) -> dict[str, Rule]:
    return {
        name: getattr(method, _ATTRIBUTE)
        for each in reversed(kind.__mro__)
        for name, method in vars(each).items()
        if hasattr(method, _ATTRIBUTE)
    }


class ApiModel(BaseModel):
    """A part of the resource. It refuses unknown fields, and instances do not change."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    @classmethod
    def rules(cls) -> dict[str, Rule]:
        """Return the rules of this class by method name, in their order, after those of its bases."""
        return _rules_of(cls)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        if rules := cls.rules():
            schema["x-kubernetes-validations"] = [rule.to_wire() for rule in rules.values()]
        return schema

    @model_validator(mode="after")
    def _rules_hold(self) -> Self:
        rules = type(self).rules().items()
        broken = [rule.message_for(self) for name, rule in rules if not getattr(self, name)()]
        if broken:
            raise RulesBroken(broken)
        return self
