from __future__ import annotations

from functools import cache

import pytest

from examples.kit.prompts import PROMPT_BYTES, PROMPTS, Kind, chosen, prompts
from examples.models.text import Document

first = cache(prompts)
"""Of the first call. The standard library is read for each."""


@pytest.mark.parametrize("kind", Kind)
def test_prompts_are_many_different_and_of_one_length(kind: Kind) -> None:
    found = first(kind)
    assert len(set(found)) == PROMPTS
    assert {len(prompt.encode()) for prompt in found} == {PROMPT_BYTES}


def test_prompts_are_the_same_on_every_call() -> None:
    assert prompts(Kind.PROSE) == first(Kind.PROSE)


def test_prompts_come_from_all_documents_in_turn() -> None:
    documents = [Document("a", "first\n" * 9), Document("b", "other\n" * 9)]
    assert set(chosen(documents, count=2, length=6, seed=0)) == {"first\n", "other\n"}


def test_too_little_text_is_an_error() -> None:
    with pytest.raises(ValueError, match="only 1 of 2 prompts"):
        chosen([Document("a", "first\n")], count=2, length=6, seed=0)
