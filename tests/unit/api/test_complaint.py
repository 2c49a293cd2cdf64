"""A complaint about a bad object uses the words of its API."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from outrider.api.mistakes import validation_message
from outrider.api.resource import SpeculativeModel
from outrider.api.validation_message import first_validation_message
from tests.unit.api.admission_cases import CASES, AdmissionCase, base_manifest

Path = tuple[str | int, ...]

FULL: dict[str, Any] = AdmissionCase(
    "an object with a value of every form",
    {
        "spec": {
            "model": {"secretRef": {"name": "hf"}, "maxLength": 8192},
            "speculation": {"candidates": [0, 5], "tuning": {"mode": "Auto", "relaunchInterval": "1h"}},
            "engine": {"version": "0.33.0", "args": {"max-num-seqs": 8, "middleware": ["a", "b"]}},
            "parallelism": {"tensor": 2, "expert": True},
            "resources": {"limits": {"nvidia.com/gpu": 2, "memory": "2Gi"}},
            "rollout": {"maxSurge": 1, "maxUnavailable": "25%", "progressDeadline": "20m"},
            "podTemplate": {
                "metadata": {"labels": {"team": "a"}},
                "spec": {"containers": [{"name": "engine"}]},
            },
        }
    },
).manifest

PYTHON = re.compile(
    r"Input should|Value error|Assertion failed|pydantic|constrained|function-|union\[|\[key\]|tagged-|"
    r"valid dictionary|valid list|instance of|Extra inputs|Field required|"
    r"\b(str|int|float|bool|dict|list\[|tuple|None|NoneType|True|False|Sequence|Mapping|[A-Z]\w+Error)\b"
)


def said(manifest: dict[str, Any]) -> str | None:
    try:
        SpeculativeModel.of_stored(manifest)
    except ValidationError as error:
        return validation_message(error, manifest)
    return None


def changed(path: Path, value: object) -> dict[str, Any]:
    manifest = copy.deepcopy(FULL)
    place: Any = manifest
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return manifest


def paths(value: object, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for part, child in parts:
        yield from paths(child, (*path, part))


bad_values: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        -1,
        0,
        10**30,
        1.5,
        float("nan"),
        "",
        "x",
        "-1",
        [],
        [None],
        [[1]],
        {},
        {"x": None},
        {"a b": []},
    ]
) | st.text("ab-:/%$ ", max_size=600)


@given(
    path=st.sampled_from([path for path in paths(FULL) if path[0] == "spec"]),
    value=bad_values,
    key=st.none() | st.sampled_from(["--max-num-seqs", "a b", "", "x" * 200, "unknown"]),
)
def test_no_bad_object_brings_out_a_name_of_python(path: Path, value: object, key: str | None) -> None:
    text = said(
        changed(path if key is None else (*path[:-1], key) if isinstance(path[-1], str) else path, value)
    )

    assert text is None or PYTHON.search(text) is None


@pytest.mark.parametrize("case", [c for c in CASES if c.refused], ids=lambda case: case.name)
def test_a_refusal_names_the_field_and_nothing_of_python(case: AdmissionCase) -> None:
    if case.name == "an unknown field":
        return  # a stored object has it from a newer CRD
    text = said(case.manifest)

    assert text is not None
    assert text.startswith(("spec", "metadata"))
    assert "spec: " not in text
    assert PYTHON.search(text) is None


SAID = {
    "a whole number that is none": (
        ("spec", "replicas"),
        "two",
        "spec.replicas: 'two' is not a whole number; write digits only",
    ),
    "a number below its bound": (
        ("spec", "replicas"),
        -1,
        "spec.replicas: -1 is too small; write at least 0",
    ),
    "a value that is none of the words": (
        ("spec", "speculation", "tuning", "mode"),
        "On",
        "spec.speculation.tuning.mode: 'On' is not one of Off, Observe, Auto",
    ),
    "a quantity that is none": (
        ("spec", "resources"),
        {"limits": {"memory": "much"}},
        "spec.resources.limits.memory: 'much' is not a quantity; write a quantity such as 1, 500m or 64Gi",
    ),
    "a number of one of two forms": (
        ("spec", "rollout", "maxSurge"),
        -1,
        "spec.rollout.maxSurge: write a number of pods from 0 to 10000, or a percentage such as 25%",
    ),
    "a value of neither form": (
        ("spec", "rollout", "maxSurge"),
        [],
        "spec.rollout.maxSurge: a list is neither a whole number nor a text",
    ),
    "an entry of a list": (
        ("spec", "speculation", "candidates"),
        [0, "x"],
        "spec.speculation.candidates.1: 'x' is not a whole number; write digits only",
    ),
    "a field that is missing": (("spec", "model"), {}, "spec.model.uri: is required"),
    "a flag with its dashes": (
        ("spec", "engine", "args"),
        {"--max-num-seqs": 8},
        "spec.engine.args: write --max-num-seqs without leading dashes: max-num-seqs",
    ),
    "a flag with a blank": (
        ("spec", "engine", "args"),
        {"a b": 8},
        "spec.engine.args: 'a b' is not a flag; write letters, digits, '-', '_' and '.', such as "
        "max-num-seqs",
    ),
    "a rule of a part": (
        ("spec", "cache"),
        {},
        "spec.cache: write either claim, for a PersistentVolumeClaim that exists, or size, for a new one",
    ),
}


@pytest.mark.parametrize(("path", "value", "wanted"), SAID.values(), ids=SAID.keys())
def test_says_what_is_wrong_and_where(path: Path, value: object, wanted: str) -> None:
    assert said(changed(path, value)) == wanted


def test_the_good_object_is_good() -> None:
    assert said(FULL) is None
    assert said(base_manifest()) is None


class Written(BaseModel):
    """What a program writes."""

    rows: list[dict[str, int]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"rows": [{"k": 1}, {"k": "secret"}]}', "rows[1].k: Input should be a valid integer"),
        ('{"rows": 3}', "rows: Input should be a valid array"),
        ("no JSON", "file: Invalid JSON"),
    ],
)
def test_what_is_wrong_with_what_a_program_wrote_names_the_place_and_not_the_value(
    text: str, told: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        Written.model_validate_json(text)
    said = first_validation_message(caught.value, whole="file")
    assert said.startswith(told)
    assert "secret" not in said
