"""Hypothesis strategies out of the CRD: every object that its schema lets through, rules apart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from outrider.api.crd import FILE_NAME

Schema = Mapping[str, Any]
Json = dict[str, Any]

CRD_FILE = Path(__file__).parents[3] / "crds" / FILE_NAME

odd_numbers = st.sampled_from(["9" * 4_400, "9" * 25, "-1", "0", "²", "٣", "64.0", "8k", 10**12])
odd_texts = st.sampled_from(["", "null", "a" * 6_000, "\x00", "é"]) | odd_numbers.map(str)
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | odd_texts | st.text(max_size=12)
"""What JSON holds, and what readers of numbers stumble over."""

pod_fields = st.sampled_from(
    [
        "containers",
        "initContainers",
        "env",
        "ports",
        "volumes",
        "name",
        "mountPath",
        "image",
        "$patch",
        "args",
    ]
)
anything = st.recursive(
    scalars,
    lambda parts: (
        st.lists(parts, max_size=3) | st.dictionaries(pod_fields | st.text(max_size=4), parts, max_size=3)
    ),
    max_leaves=10,
)
"""What may stand where the schema keeps unknown fields."""


def nested(levels: int) -> Json:
    """An object within an object, so many levels deep."""
    value: Json = {}
    for level in range(levels):
        value = {"a": [value]} if level % 2 else {"a": value}
    return value


deep = st.integers(1, 4_000).map(nested)


@cache
def schema_of(field: str) -> Schema:
    """The schema of ``spec`` or ``status``."""
    crd = yaml.load(CRD_FILE.read_text(encoding="utf-8"), yaml.CSafeLoader)
    version = crd["spec"]["versions"][0]
    return version["schema"]["openAPIV3Schema"]["properties"][field]  # type: ignore[no-any-return]


def admitted(schema: Schema) -> st.SearchStrategy[Any]:
    """Values of a schema."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return _integers(schema) | _texts(schema)
    match schema.get("type"):
        case "object":
            return _objects(schema)
        case "array":
            items = admitted(schema["items"])
            return st.lists(items, min_size=schema.get("minItems", 0), max_size=min(schema["maxItems"], 4))
        case "string":
            return _texts(schema)
        case "integer":
            return _integers(schema)
        case "boolean":
            return st.booleans()
    raise AssertionError(f"no strategy for {schema}")


def _objects(schema: Schema) -> st.SearchStrategy[Json]:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return st.dictionaries(st.text(max_size=8) | pod_fields, anything, max_size=4) | deep
    if "additionalProperties" in schema:
        return st.dictionaries(st.text(max_size=8), admitted(schema["additionalProperties"]), max_size=3)
    fields = {name: admitted(part) for name, part in schema["properties"].items()}
    required = {name: fields.pop(name) for name in schema.get("required", ())}
    return st.fixed_dictionaries(required, optional=fields)


def _texts(schema: Schema) -> st.SearchStrategy[str]:
    longest = schema.get("maxLength")
    if schema.get("format") == "date-time":
        return st.just("2026-01-01T12:00:00Z")
    patterns = [schema["pattern"]] if "pattern" in schema else _patterns_of_rules(schema)
    if patterns:
        compiled = [re.compile(pattern, re.ASCII) for pattern in patterns]
        texts = st.one_of([st.from_regex(pattern, fullmatch=True) for pattern in compiled])
        return texts.filter(lambda text: longest is None or len(text) <= longest)
    least = schema.get("minLength", 0)
    return st.text(min_size=least, max_size=min(longest or 20, least + 20))


def _patterns_of_rules(schema: Schema) -> list[str]:
    """Rules do not bind these strategies, but a text that breaks them is read no further."""
    rules = [rule["rule"] for rule in schema.get("x-kubernetes-validations", ())]
    return [pattern for rule in rules for pattern in re.findall(r"self\)?\.matches\('([^']+\$)'\)", rule)]


def _integers(schema: Schema) -> st.SearchStrategy[int]:
    return st.integers(schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1))
