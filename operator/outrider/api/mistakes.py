"""The mistakes in an object that a user wrote, in the words of its API: field, value, and what to write.

No sentence has a name of Python or of a library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from outrider.api.base import RulesBroken
from outrider.api.crd import Schema, structural_schema
from outrider.api.spec import Spec
from outrider.api.text import shortened

_SENTENCES: Mapping[str, str] = {
    "missing": "is required",
    "string_type": "{value} is not a text",
    "string_pattern_mismatch": "{value} does not match {pattern}",
    "string_too_short": "{value} is too short; write at least {min_length} characters",
    "string_too_long": "this text is too long; write at most {max_length} characters",
    "int_type": "{value} is not a whole number; write digits only",
    "int_parsing": "{value} is not a whole number; write digits only",
    "int_parsing_size": "this number has too many digits",
    "int_from_float": "{value} is not a whole number; write digits only",
    "float_type": "{value} is not a number",
    "float_parsing": "{value} is not a number",
    "finite_number": "this number is not finite",
    "bool_type": "{value} is neither true nor false",
    "bool_parsing": "{value} is neither true nor false",
    "dict_type": "{value} is not an object",
    "model_type": "{value} is not an object",
    "list_type": "{value} is not a list",
    "too_short": "write at least {min_length} entries",
    "too_long": "write at most {max_length} entries",
    "greater_than_equal": "{value} is too small; write at least {ge}",
    "less_than_equal": "{value} is too large; write at most {le}",
    "value_error": "{error}",
    "json_invalid": "Kubernetes cannot store this as JSON: {error}",
}
"""Kind of an error -> what to say."""
_OTHERWISE = "this cannot be parsed; write a value of the documented type"
_NAME_PATTERN = "^[a-z0-9]"
_NAME_WORDS = "{value} is not a Kubernetes name; write lower-case letters, digits and '-'"
_TEXTS = ("string_type", "enum", "literal_error")
_IN_QUOTES: Mapping[str, re.Pattern[str]] = {
    "int_type": re.compile("-?[0-9]{1,18}"),
    "bool_type": re.compile("true|false"),
}
"""Kind of an error -> texts that would be right without quotes."""
_QUOTES = "put the value in quotes"
_YAML_BOOLEANS = {True: ("true", "yes", "on"), False: ("false", "no", "off")}

_MAX_ERRORS = 256
"""Each of them becomes a dictionary where one is wanted, since pydantic has no way to one alone."""
_MAX_VALUE = 60  # characters
_MAX_FIELDS = 12


def validation_message(error: ValidationError, raw: object) -> str:
    """The first mistake in ``raw``."""
    return mistakes(error, raw)[0]


def mistakes(error: ValidationError, raw: object) -> tuple[str, ...]:
    """All mistakes that were found in ``raw``, at least one, each as ``field: what to write``."""
    if error.error_count() > _MAX_ERRORS:
        return (f"{error.error_count()} errors, of which at most {_MAX_ERRORS} are read; {_OTHERWISE}",)
    by_path: dict[str, dict[str, None]] = {}
    for detail in error.errors(include_url=False):
        # One value that suits none of several forms gives an error for each form.
        found = by_path.setdefault(_path(detail, raw), {})
        found.update(dict.fromkeys(_sentences(detail, raw)))
    return tuple(line for path, found in by_path.items() for line in _lines(path, tuple(found)))


def _lines(path: str, sentences: tuple[str, ...]) -> Iterator[str]:
    """One line for each rule, and one for a value that suits none of several forms."""
    whole = [text for text in sentences if text.startswith(("spec.", "metadata."))]
    yield from whole
    others = [text for text in sentences if text not in whole]
    if others:
        text = _joined(others)
        yield f"{path}: {text}" if path else text


def _joined(sentences: list[str]) -> str:
    """What is wrong with one value, which may have several forms and suit none."""
    if len(sentences) > 1:  # A boolean in quotes would not suit a number or percentage.
        sentences = [text for text in sentences if not text.endswith(_QUOTES)] or sentences
    heads = [text.partition(";")[0].partition(" is not ") for text in sentences]
    if len(sentences) > 1 and all(form for _, _, form in heads):
        return f"{heads[0][0]} is neither {' nor '.join(form for _, _, form in heads)}"
    return ", or ".join(sentences)


def _sentences(detail: ErrorDetails, raw: object) -> Iterator[str]:
    kind, value = detail["type"], detail["input"]
    context = dict(detail.get("ctx", {}))
    error = context.get("error")
    if isinstance(error, RulesBroken):
        yield from error.messages
    elif kind == "extra_forbidden":
        yield _unknown_field(detail)
    elif kind in _TEXTS and isinstance(value, bool | int | float):
        yield _unquoted(detail, raw)
    elif kind in _IN_QUOTES and isinstance(value, str) and _IN_QUOTES[kind].fullmatch(value):
        key = _path(detail, raw).rpartition(".")[2]
        line = value if key.isdecimal() else f"{key}: {value}"
        yield f"{shown(value)} is a text; write it without quotes: {line}"
    elif kind in ("enum", "literal_error"):
        yield _not_a_choice(value, detail)
    else:
        text = _SENTENCES.get(kind, _OTHERWISE)
        if kind == "string_pattern_mismatch":
            text = _words_of_pattern(str(context["pattern"]))
        yield text.format(**context | {"value": shown(value)})


def _words_of_pattern(pattern: str) -> str:
    words = re.fullmatch(r"\^\(([A-Za-z|]+)\)\$", pattern)
    if words is not None:
        return f"{{value}} is not one of {words[1].replace('|', ', ')}"
    return _NAME_WORDS if pattern.startswith(_NAME_PATTERN) else _SENTENCES["string_pattern_mismatch"]


def shown(value: object) -> str:
    """A value as a sentence names it: short, and in the spelling of YAML."""
    if isinstance(value, str):
        return f"'{shortened(value, _MAX_VALUE)}'"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    try:
        return shortened(json.dumps(value), _MAX_VALUE)
    except (TypeError, ValueError):
        return "this"


def _unknown_field(detail: ErrorDetails) -> str:
    *place, name = (str(part) for part in detail["loc"])
    fields = _fields_at(tuple(place))
    near = nearest(name, fields)
    if near is not None:
        return f"there is no such field; did you mean {near}?"
    of_target = place[:2] == ["spec", "target"]  # a manifest has a model or a target, and names are alike
    paths = (path for path in _paths() if path.startswith("spec.target.") == of_target)
    elsewhere = [path for path in paths if path.rpartition(".")[2] == name]
    if len(elsewhere) == 1:
        return f"there is no such field here; did you mean {elsewhere[0]}?"
    listed = ", ".join(sorted(fields)[:_MAX_FIELDS])
    return f"there is no such field; the fields here are {listed}" if listed else "there is no such field"


def _unquoted(detail: ErrorDetails, raw: object) -> str:
    """A text that YAML reads as a boolean or a number, since it has no quotes."""
    value, key = detail["input"], _path(detail, raw).rpartition(".")[2]
    choices = _choices(detail)
    if not isinstance(value, bool):
        remedy = (
            f"write one of {', '.join(choices)}" if choices else f'put it in quotes: {key}: "{shown(value)}"'
        )
        return f"{shown(value)} is a number; {remedy}"
    words = _YAML_BOOLEANS[value]
    meant = next((each for each in choices if each.lower() in words), None)
    if meant is not None:
        return f'YAML reads {meant} without quotes as {shown(value)}; put it in quotes: {key}: "{meant}"'
    remedy = f"write one of {', '.join(choices)}" if choices else _QUOTES
    return f"YAML reads {', '.join(words)} without quotes as {shown(value)}; {remedy}"


def _not_a_choice(value: object, detail: ErrorDetails) -> str:
    choices = _choices(detail)
    if len(choices) == 1:
        return f"{shown(value)} is not known; write {choices[0]}"
    near = nearest(str(value), choices)
    remedy = "" if near is None else f"; did you mean {near}?"
    return f"{shown(value)} is not one of {', '.join(choices)}{remedy}"


def _choices(detail: ErrorDetails) -> tuple[str, ...]:
    """The values that the field takes; none where it takes any text."""
    expected = str(dict(detail.get("ctx", {})).get("expected", ""))
    return tuple(expected.replace("' or '", "', '").strip("'").split("', '")) if expected else ()


def nearest(typed: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant; None: none is near."""
    by_plain = {_plain(word): word for word in known}
    found = get_close_matches(_plain(typed), list(by_plain), n=1, cutoff=0.7)
    return by_plain[found[0]] if found else None


def did_you_mean(typed: str, known: Iterable[str]) -> str:
    """A question with a blank behind it; empty where no known word is near."""
    near = nearest(typed, known)
    return "" if near is None else f"did you mean {near}? "


def _plain(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")


@cache
def _schema() -> Schema:
    return {"properties": {"spec": structural_schema(Spec)}}


def _fields_at(place: tuple[str, ...]) -> tuple[str, ...]:
    found: object = _schema()
    for part in place:
        found = _child(found, part)
    properties = found.get("properties") if isinstance(found, Mapping) else None
    return tuple(properties) if isinstance(properties, Mapping) else ()


def _child(schema: object, part: str) -> object:
    if not isinstance(schema, Mapping):
        return None
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and part in properties:
        return properties[part]
    return schema.get("items") if part.isdecimal() else schema.get("additionalProperties")


@cache
def _paths() -> tuple[str, ...]:
    """All fields of the spec, such as ``spec.speculation.tuning.mode``."""

    def below(schema: object, path: str) -> Iterator[str]:
        if isinstance(schema, Mapping):
            for name, child in (schema.get("properties") or {}).items():
                yield f"{path}{name}"
                yield from below(child, f"{path}{name}.")

    return tuple(below(_schema(), ""))


def _path(detail: ErrorDetails, raw: object) -> str:
    """Only fields, keys and positions of the object: other parts of a location name types of Python."""
    place, found = raw, list[str]()
    for part in detail["loc"]:
        if not _has(place, part):
            break
        place = place[part]  # type: ignore[index]
        found.append(str(part))
    if detail["type"] == "missing":
        found.append(str(detail["loc"][-1]))
    return ".".join(found)


def _has(place: object, part: int | str) -> bool:
    if isinstance(place, Mapping):
        return part in place
    return isinstance(place, list) and isinstance(part, int) and part < len(place)
