"""An object as the API server stores it: numbers as JSON has them, and no nulls in declared fields."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import JsonValue

from outrider.api.crd import Schema, structural_schema
from outrider.api.json_object import as_object
from outrider.api.spec import Spec
from outrider.foreign import InputRefused, require_room
from outrider.foreign.readers import SPEC

_LARGEST = 2**63
"""Limit of a whole number in JSON of Kubernetes."""


def as_stored(raw: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return a SpeculativeModel without nulls that the API server drops, and with 3 for 3.0.

    A null in ``spec.podTemplate.spec`` stays, because there it deletes a field. An object above the limits
    of a spec stays as it is: validation refuses it.
    """
    try:
        require_room(SPEC, raw.get("spec"))
    except InputRefused:
        return raw
    found: dict[str, JsonValue] = {key: value for key, value in raw.items() if value is not None}
    if isinstance(found.get("metadata"), dict):
        found["metadata"] = {k: v for k, v in as_object(found["metadata"]).items() if v is not None}
    if "spec" in found:
        found["spec"] = _pruned(_whole(found["spec"]), _schema())
    return found


@cache
def _schema() -> Schema:
    """Return the schema of a spec, without the fields below ``podTemplate.spec``."""
    schema: Any = structural_schema(Spec)
    schema["properties"]["podTemplate"]["properties"]["spec"] = {}
    return dict(schema)


def _pruned(value: JsonValue, schema: object) -> JsonValue:
    """Return the value without nulls in the fields that the schema declares."""
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, list):
        return [_pruned(item, schema.get("items")) for item in value]
    if not isinstance(value, dict):
        return value
    declared, others = schema.get("properties") or {}, schema.get("additionalProperties")
    return {
        key: _pruned(part, declared.get(key, others))
        for key, part in value.items()
        if part is not None or declared.get(key, others) is None
    }


def _whole(value: JsonValue) -> JsonValue:
    """Return the value with whole numbers as integers, which `kubectl` sends for 3.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST:
        return int(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return {key: _whole(part) for key, part in value.items()} if isinstance(value, dict) else value
