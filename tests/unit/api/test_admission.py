from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from outrider.api.base import ApiModel, Rule
from outrider.api.resource import SpeculativeModel
from tests.unit.api.admission_cases import CASES, AdmissionCase

ACCEPTED = [case for case in CASES if case.refused is None]
REFUSED = [case for case in CASES if case.refused is not None]


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_accepts(case: AdmissionCase) -> None:
    SpeculativeModel.model_validate(case.manifest)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_refuses_and_names_the_field(case: AdmissionCase) -> None:
    with pytest.raises(ValidationError) as refusal:
        SpeculativeModel.model_validate(case.manifest)
    assert case.refused is not None
    assert case.refused in str(refusal.value)


def test_every_rule_refuses_some_case() -> None:
    texts = []
    for case in REFUSED:
        with pytest.raises(ValidationError) as refusal:
            SpeculativeModel.model_validate(case.manifest)
        texts.append(str(refusal.value))
    rules = [rule for part in _parts(ApiModel) for rule in part.rules().values()]
    rules = [
        rule for rule in rules if "oldSelf" not in rule.cel
    ]  # only the API server knows the object before
    assert [rule.message for rule in rules if not any(_said_in(text, rule) for text in texts)] == []


def _said_in(text: str, rule: Rule) -> bool:
    """Whether the message is there, with any values."""
    words = (re.escape(part) for part in re.split(r"\{[A-Za-z.]*\}", rule.message))
    return re.search(".*".join(words), text) is not None


def test_case_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert sorted(names) == sorted(set(names))


def _parts(root: type[ApiModel]) -> list[type[ApiModel]]:
    return [part for child in root.__subclasses__() for part in (child, *_parts(child))]
