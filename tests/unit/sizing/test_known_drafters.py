"""The catalogue of published drafters: what it holds, and which model finds what."""

from __future__ import annotations

from collections import Counter
from datetime import date

import pytest

from outrider.sizing.known_drafters import KNOWN_DRAFTERS, drafters_of, proposed_head
from outrider_protocol.methods import TRAITS, Drafter, Method, Tunability


def test_every_entry_can_be_served_and_says_where_it_was_read() -> None:
    assert len(KNOWN_DRAFTERS) >= 12
    for known in KNOWN_DRAFTERS:
        assert TRAITS[known.method].drafter is not Drafter.FORBIDDEN
        assert TRAITS[known.method].tunability is not Tunability.REFUSED
        assert known.source
        assert date(2025, 1, 1) <= known.read <= date(2026, 12, 31)


def test_no_drafter_is_listed_twice() -> None:
    assert max(Counter(known.uri for known in KNOWN_DRAFTERS).values()) == 1


@pytest.mark.parametrize(
    "name",
    ["Qwen3-8B", "hf://Qwen/Qwen3-8B", "hf://RedHatAI/Qwen3-8B-FP8-dynamic", "s3://models/qwen3-8b-awq"],
)
def test_a_target_is_found_by_name_and_uri_quantised_or_not(name: str) -> None:
    assert {known.method for known in drafters_of(name)} == {Method.EAGLE3, Method.DFLASH, Method.P_EAGLE}


@pytest.mark.parametrize("name", ["hf://org/Qwen3-8B-Medical", "Qwen3-8B-Base", "Qwen3-8"])
def test_another_model_of_the_same_dimensions_has_none(name: str) -> None:
    assert drafters_of(name) == ()


def test_plan_proposes_heads_of_the_projects_own_list_only() -> None:
    assert proposed_head("Qwen/Qwen3-8B") == "hf://RedHatAI/Qwen3-8B-speculator.eagle3"
    assert proposed_head("moonshotai/Kimi-K2-Instruct") is None
    assert drafters_of("Kimi-K2-Instruct") != ()
