"""Objects that stay in memory share the sets of their given fields, which pydantic keeps for each."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from outrider.api.resource import SpeculativeModel
from outrider.controller.kept_fields import share_field_names
from outrider.controller.stored import StoredModel, StoredPod
from tests.unit.controller.factories import a_raw_model, a_raw_pod


def parts(value: object) -> list[BaseModel]:
    """A parsed object and all within it."""
    if isinstance(value, BaseModel):
        return [value, *(part for each in value.__dict__.values() for part in parts(each))]
    if isinstance(value, dict):
        value = tuple(value.values())
    return [part for each in value for part in parts(each)] if isinstance(value, list | tuple) else []


def a_model(raw: dict[str, Any]) -> StoredModel:
    found = StoredModel.read(raw)
    assert found.model is not None, found.problem
    return found


def test_two_models_with_the_same_fields_have_no_set_of_their_own() -> None:
    first, second = (a_model(a_raw_model(name)).model for name in ("a", "b"))
    found = [parts(each) for each in (first, second)]
    assert len(found[0]) == len(found[1]) > 5
    for one, other in zip(*found, strict=True):
        assert one.__pydantic_fields_set__ is other.__pydantic_fields_set__


def test_what_was_given_is_known_as_before() -> None:
    raw = a_raw_model("a")
    parsed = SpeculativeModel.of_stored(raw)
    before = [set(part.model_fields_set) for part in parts(parsed)]
    share_field_names(parsed)
    assert [part.model_fields_set for part in parts(parsed)] == before
    assert parsed == SpeculativeModel.of_stored(raw)


def test_a_copy_with_other_fields_leaves_the_shared_set_alone() -> None:
    pod = StoredPod.read(a_raw_pod("a")).pod
    before = set(pod.metadata.model_fields_set)
    copy = pod.metadata.model_copy(update={"deletion_timestamp": "now"})
    assert "deletion_timestamp" in copy.model_fields_set
    assert pod.metadata.model_fields_set == before
    assert StoredPod.read(a_raw_pod("b")).pod.metadata.model_fields_set == before
