from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.controller.children import satisfies, stamped
from tests.unit.cluster.factories import a_manifest

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=4)
manifests = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(manifests)
def test_everything_satisfies_itself(manifest: Any) -> None:
    assert satisfies(manifest, manifest)


@given(st.dictionaries(st.text(max_size=3), manifests, max_size=4), st.integers())
def test_fields_of_others_do_not_matter(manifest: dict[str, Any], value: int) -> None:
    assert satisfies({**manifest, "added by a default": value}, manifest)


CHANGED: dict[str, tuple[Any, Any]] = {
    "a changed value": ({"a": 1}, {"a": 2}),
    "a missing field": ({}, {"a": 2}),
    "a changed value deep down": ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}),
    "an added list entry": ({"a": [1, 2]}, {"a": [1]}),
    "a removed list entry": ({"a": []}, {"a": [1]}),
    "another order": ({"a": [1, 2]}, {"a": [2, 1]}),
    "a text in place of a list": ({"a": "xy"}, {"a": ["x", "y"]}),
    "nothing in place of an object": ({"a": None}, {"a": {"b": 1}}),
}


@pytest.mark.parametrize(("live", "wanted"), CHANGED.values(), ids=CHANGED.keys())
def test_sees(live: Any, wanted: Any) -> None:
    assert not satisfies(live, wanted)


def test_an_empty_value_that_the_server_left_out_is_satisfied() -> None:
    assert satisfies({}, {"readOnly": False, "replicas": 0, "note": ""})


def test_a_field_that_is_no_longer_wanted_changes_the_stamp() -> None:
    before = stamped(a_manifest(spec={"a": 1, "b": 2}))

    assert not satisfies(before, stamped(a_manifest(spec={"a": 1})))


def test_the_stamp_does_not_depend_on_the_order_of_fields() -> None:
    assert stamped(a_manifest(a=1, b=2)) == stamped(a_manifest(b=2, a=1))


def test_the_stamp_keeps_other_annotations() -> None:
    manifest = a_manifest()
    manifest["metadata"]["annotations"] = {"note": "x"}

    assert stamped(manifest)["metadata"]["annotations"]["note"] == "x"
