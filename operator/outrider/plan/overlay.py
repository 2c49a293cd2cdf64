"""``spec.podTemplate`` on top of the planned pod, merged as Kubernetes merges a strategic patch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from outrider.api.json_object import Json

MERGE_KEYS: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""Lists of a PodSpec whose entries merge by a key; every other list is replaced as a whole.

Source: the ``patchMergeKey`` tags of ``k8s.io/api/core/v1``.
"""

_RETAIN_KEYS = {"volumes", "env"}
"""Entries that hold one of several alternatives: a patch that names one drops the others."""

_HANDLERS = {"preStop", "postStart"}
"""Objects that hold one of several alternatives, likewise."""

_DIRECTIVE = "$patch"
_DELETED: Json = {_DIRECTIVE: "delete"}


def merge(base: Mapping[str, JsonValue], patch: Mapping[str, JsonValue]) -> Json:
    """``base`` with ``patch`` on top. Null deletes a field; neither argument is changed.

    ``$patch: replace`` in an object replaces it. ``$patch: delete`` deletes a list entry, or a field of any
    kind that has it as its value. ``kubectl apply`` drops nulls before it sends them, and keeps this.

    Raises:
        ValueError: an entry of a merged list has no merge key.
    """
    if patch.get(_DIRECTIVE) == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    merged: Json = dict(base)
    for field, value in patch.items():
        if value is None or value == _DELETED:
            merged.pop(field, None)
        else:
            merged[field] = _merged_value(field, merged.get(field), value)
    return merged


def _merged_value(field: str, base: JsonValue, patch: JsonValue) -> JsonValue:
    if isinstance(patch, dict):
        before = base if isinstance(base, dict) and field not in _HANDLERS else {}
        return merge(before, patch)
    if isinstance(patch, list) and field in MERGE_KEYS:
        return _merged_list(field, base if isinstance(base, list) else [], patch)
    return patch


def _merged_list(field: str, base: Sequence[JsonValue], patch: Sequence[JsonValue]) -> list[JsonValue]:
    """Entries of ``base`` in their order, then the new ones of ``patch``."""
    entries = {_key(field, entry): _object(field, entry) for entry in base}
    for entry in patch:
        key, change = _key(field, entry), _object(field, entry)
        if change.get(_DIRECTIVE) == "delete":
            entries.pop(key, None)
            continue
        before = entries.get(key, {})
        if field in _RETAIN_KEYS:
            before = {name: value for name, value in before.items() if name in change}
        entries[key] = merge(before, change)
    return list(entries.values())


def _object(field: str, entry: JsonValue) -> Json:
    if not isinstance(entry, dict):
        raise ValueError(f"entries of {field} must be objects")
    return entry


def _key(field: str, entry: JsonValue) -> JsonValue:
    key = MERGE_KEYS[field]
    value = _object(field, entry).get(key)
    if not isinstance(value, str | int):
        raise ValueError(f"every entry of {field} needs {key}")
    return value
