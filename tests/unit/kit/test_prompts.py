from __future__ import annotations

from functools import cache

import pytest

from examples.kit.prompts import PROMPT_BYTES, PROMPTS, Kind, prompts

first = cache(prompts)
"""Of the first call. The standard library is read for each."""


@pytest.mark.parametrize("kind", Kind)
def test_prompts_are_many_different_and_of_one_length(kind: Kind) -> None:
    found = first(kind)
    assert len(set(found)) == PROMPTS
    assert {len(prompt.encode()) for prompt in found} == {PROMPT_BYTES}


def test_prompts_are_the_same_on_every_call() -> None:
    assert prompts(Kind.PROSE) == first(Kind.PROSE)
