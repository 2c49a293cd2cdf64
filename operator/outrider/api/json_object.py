"""JSON objects of manifests, whose values are of any kind of JSON."""

from __future__ import annotations

from pydantic import JsonValue

Json = dict[str, JsonValue]


def as_object(value: object) -> Json:
    """Return `value` if it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def as_objects(value: object) -> list[Json]:
    """Return the objects among the entries of `value`; an empty list if it is not a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
