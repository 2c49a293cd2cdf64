from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from outrider.api.json_object import Json
from outrider.plan.overlay import merge

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
keys = st.sampled_from(["a", "b", "spec", "labels"])
objects = st.recursive(
    st.dictionaries(keys, scalars, max_size=3),
    lambda children: st.dictionaries(keys, scalars | children, max_size=3),
    max_leaves=8,
)


def a_container(**fields: object) -> Json:
    return {"containers": [{"name": "engine", **fields}]}  # type: ignore[dict-item]


def test_objects_merge_field_by_field() -> None:
    assert merge({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}) == {"a": {"x": 1, "y": 3}}


def test_null_deletes_a_field() -> None:
    assert merge({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"c": None}}) == {"b": {}}


@pytest.mark.parametrize("value", [1000, "a", {"b": 1}, [1], [{"name": "a"}]])
def test_a_field_is_deleted_by_what_kubectl_apply_does_not_drop(value: JsonValue) -> None:
    """It drops nulls on the client, and would keep the field."""
    base: Json = {"kept": True, "env": value, "gone": value}
    assert merge(base, {"gone": {"$patch": "delete"}, "env": {"$patch": "delete"}}) == {"kept": True}
    assert merge({}, {"new": {"gone": {"$patch": "delete"}}}) == {"new": {}}


def test_containers_merge_by_name() -> None:
    merged = merge(a_container(image="x"), a_container(tty=True))
    assert merged == a_container(image="x", tty=True)


def test_one_handler_takes_the_place_of_another() -> None:
    planned: Json = {
        "lifecycle": {"preStop": {"exec": {"command": ["drain"]}}, "postStart": {"sleep": {"seconds": 1}}}
    }
    merged = merge(planned, {"lifecycle": {"preStop": {"sleep": {"seconds": 9}}}})
    assert merged["lifecycle"] == {
        "preStop": {"sleep": {"seconds": 9}},
        "postStart": {"sleep": {"seconds": 1}},
    }


def test_new_entries_come_last() -> None:
    merged = merge({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "B", "value": "2"}]})
    assert [entry["name"] for entry in merged["env"]] == ["A", "B"]  # type: ignore[index,union-attr,call-overload]


def test_mounts_merge_by_path() -> None:
    base: Json = {"volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}
    patch: Json = {"volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}]}
    assert merge(base, patch) == patch


def test_ports_merge_by_number() -> None:
    base: Json = {"ports": [{"name": "http", "containerPort": 8000}]}
    merged = merge(base, {"ports": [{"containerPort": 8000, "hostPort": 80}]})
    assert merged == {"ports": [{"name": "http", "containerPort": 8000, "hostPort": 80}]}


def test_a_new_source_of_a_volume_drops_the_old_one() -> None:
    base: Json = {"volumes": [{"name": "home", "emptyDir": {}}]}
    patch: Json = {"volumes": [{"name": "home", "hostPath": {"path": "/x"}}]}
    assert merge(base, patch) == patch


def test_the_same_source_of_a_volume_is_merged() -> None:
    base: Json = {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]}
    merged = merge(base, {"volumes": [{"name": "shm", "emptyDir": {"sizeLimit": "1Gi"}}]})
    assert merged == {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]}


def test_an_entry_can_be_deleted() -> None:
    base: Json = {"volumes": [{"name": "a"}, {"name": "b"}]}
    assert merge(base, {"volumes": [{"name": "a", "$patch": "delete"}]}) == {"volumes": [{"name": "b"}]}


def test_an_object_can_be_replaced() -> None:
    assert merge({"a": {"x": 1}}, {"a": {"$patch": "replace", "y": 2}}) == {"a": {"y": 2}}


def test_other_lists_are_replaced() -> None:
    assert merge({"command": ["a", "b"]}, {"command": ["c"]}) == {"command": ["c"]}


def test_an_entry_without_key_is_refused() -> None:
    with pytest.raises(ValueError, match="every entry of volumes needs name"):
        merge({}, {"volumes": [{"emptyDir": {}}]})


@settings(max_examples=50)
@given(base=objects)
def test_an_empty_overlay_changes_nothing(base: Json) -> None:
    assert merge(base, {}) == base


@settings(max_examples=50)
@given(base=objects, patch=objects)
def test_an_overlay_applied_twice_is_applied_once(base: Json, patch: Json) -> None:
    once = merge(base, patch)
    assert merge(once, patch) == once


@settings(max_examples=50)
@given(base=objects, patch=objects, gone=keys)
def test_no_null_of_the_overlay_remains(base: Json, patch: Json, gone: str) -> None:
    merged = merge({gone: 1, **base}, {**patch, gone: None})
    assert gone not in merged
    assert all(merged.get(key, "gone") is not None for key in patch)
