"""How a model is named, and how long its context is, in every form that vLLM's own flags have."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from outrider.api.quantity import MAX_CONTEXT
from outrider.api.resource import SpeculativeModel
from tests.unit.plan.factories import a_model, a_plan, arguments, flag


def named(**model: object) -> SpeculativeModel:
    raw = a_model().model_dump(mode="json", by_alias=True, exclude_none=True)
    raw["spec"]["model"] |= model
    return SpeculativeModel.model_validate(raw)


def test_further_names_follow_the_first_which_metrics_have() -> None:
    words = arguments(a_plan(named(servedName="a", servedAliases=["b", "org/c"])))
    where = words.index("--served-model-name")
    assert words[where : where + 5] == ["--served-model-name", "a", "b", "org/c", "--port=8000"]


def test_aliases_stand_beside_the_name_of_the_object() -> None:
    words = arguments(a_plan(named(servedAliases=["b"])))
    where = words.index("--served-model-name")
    assert words[where + 1 : where + 3] == ["qwen", "b"]


def test_one_name_is_one_word() -> None:
    assert flag(a_plan(named(servedName="a")), "--served-model-name") == "a"


@pytest.mark.parametrize("name", ["a b", "a,b", "-a", " a"])
def test_several_names_in_one_text_are_refused_with_the_field_for_them(name: str) -> None:
    for fields in ({"servedName": name}, {"servedAliases": [name]}):
        with pytest.raises(ValidationError, match="others into servedAliases"):
            named(**fields)


@pytest.mark.parametrize(
    "fields", [{"servedAliases": ["b", "b"]}, {"servedName": "b", "servedAliases": ["b"]}]
)
def test_a_name_is_given_once(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="name each once"):
        named(**fields)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (8192, "8192"),
        ("8192", "8192"),
        ("160K", "163840"),
        ("160k", "160000"),
        ("25.6k", "25600"),
        ("1m", "1000000"),
        ("1M", "1048576"),
        ("auto", "auto"),
    ],
)
def test_a_context_is_written_as_vllm_writes_it(written: object, told: str) -> None:
    assert flag(a_plan(named(maxLength=written)), "--max-model-len") == told


@pytest.mark.parametrize(
    "written", ["25.6K", "long", "-1", "1e5", "K", "", "160 K", 0, "0", "101m", MAX_CONTEXT + 1]
)
def test_what_is_no_context_is_refused(written: object) -> None:
    with pytest.raises(ValidationError):
        named(maxLength=written)


@pytest.mark.parametrize("written", ["25.6K", "long", "-1"])
def test_the_refusal_says_how_a_context_is_written(written: str) -> None:
    with pytest.raises(ValidationError, match=r"160K \(of 1024\) or 25\.6k \(of 1000\), or auto"):
        named(maxLength=written)
