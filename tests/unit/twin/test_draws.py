"""Chance: the same text whatever the policy, and as often as the curve says."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider_twin.draws import FIRST_TOKEN, TOKENS, accepted, choose, normal, prompt_key, tokens, uniform

KEYS = st.integers(0, 2**64 - 1)
PROMPTS = st.lists(st.integers(0, 200_000), max_size=20)
MANY = 20_000


def a_text(key: int, lengths: list[int], chance: float) -> list[int]:
    """What a request says when its drafts have these lengths."""
    said: list[int] = []
    for length in lengths:
        count = accepted(key, len(said), length, lambda _: chance) + 1
        said += tokens(key, len(said), count)
    return said


@given(KEYS, st.lists(st.integers(0, 6), max_size=20), st.lists(st.integers(0, 6), max_size=20))
def test_a_text_is_the_same_at_every_k(key: int, some: list[int], others: list[int]) -> None:
    one, other = a_text(key, some, 0.7), a_text(key, others, 0.7)
    shared = min(len(one), len(other))
    assert one[:shared] == other[:shared]


@given(KEYS, st.integers(0, 1000), st.integers(0, 8))
def test_a_longer_draft_from_the_same_place_gets_at_least_as_far(key: int, start: int, length: int) -> None:
    short, long = (accepted(key, start, count, lambda _: 0.6) for count in (length, length + 1))
    assert short == min(long, length)


@given(PROMPTS, st.integers(0, 9))
def test_a_prompt_has_one_key_per_seed(prompt: list[int], seed: int) -> None:
    assert prompt_key(prompt, seed) == prompt_key(tuple(prompt), seed)
    assert prompt_key(prompt, seed) != prompt_key([*prompt, 7], seed)
    assert prompt_key(prompt, seed) != prompt_key(prompt, seed + 1)


@given(KEYS, st.integers(0, 10**9), st.integers(0, 50))
def test_tokens_are_printable(key: int, start: int, count: int) -> None:
    assert all(FIRST_TOKEN <= token < FIRST_TOKEN + TOKENS for token in tokens(key, start, count))


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.9])
def test_acceptance_is_as_often_as_its_chance(chance: float) -> None:
    hits = sum(accepted(12345, place, 1, lambda _: chance) for place in range(MANY))
    assert hits / MANY == pytest.approx(chance, abs=0.015)  # four standard deviations


def test_draws_are_uniform_and_normal() -> None:
    flat = [uniform(7, number) for number in range(MANY)]
    bell = [normal(7, number) for number in range(MANY)]
    assert min(flat) >= 0
    assert max(flat) < 1
    assert sum(flat) / MANY == pytest.approx(0.5, abs=0.01)
    assert sum(bell) / MANY == pytest.approx(0, abs=0.03)
    assert sum(value**2 for value in bell) / MANY == pytest.approx(1, abs=0.05)


def test_classes_come_as_often_as_their_shares() -> None:
    counted = Counter(choose(prompt_key([n], 0), [("code", 3.0), ("prose", 1.0)]) for n in range(MANY))
    assert counted["code"] / MANY == pytest.approx(0.75, abs=0.015)
    assert set(counted) == {"code", "prose"}
