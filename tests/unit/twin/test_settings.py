"""Settings of an engine, and its answer to nonsense."""

from __future__ import annotations

import json

import pytest

from outrider_twin.settings import Settings, SettingsError, parse_settings
from tests.unit.twin.factories import some_settings

BARE = {"step_time": {"fixed": 0.01}, "kv_tokens": 100}


def test_a_name_alone_is_a_shipped_engine() -> None:
    settings = parse_settings(" h100_8b ")
    assert settings.engine.source.startswith("SpecDecode-Bench")
    assert settings == parse_settings('{"engine": "h100_8b"}')


def test_equal_shares_of_all_classes_unless_said_otherwise() -> None:
    names = ["cnn", "gsm8k", "instructcoder", "sharegpt"]
    assert parse_settings("h100_8b").shares() == tuple((name, 1.0) for name in names)
    given = parse_settings('{"engine": "h100_8b", "texts": {"gsm8k": 2, "cnn": 1}}')
    assert given.shares() == (("cnn", 1.0), ("gsm8k", 2.0))


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ("h100_8b", "h100_8b"),
        ({"engine": "h100_8b", "idle_tax": 0.1}, "h100_8b"),
        ({"engine": {**BARE, "name": "mine", "source": "a stopwatch"}}, "mine"),
        ({"engine": {**BARE, "source": "a stopwatch"}}, "a stopwatch"),
        ({"engine": BARE}, "a description without a name"),
    ],
    ids=str,
)
def test_every_simulated_engine_has_a_title(given: object, title: str) -> None:
    settings = parse_settings(given if isinstance(given, str) else json.dumps(given))
    assert settings.description().title == title


def test_what_is_said_instead_of_the_description_counts() -> None:
    description = some_settings(kv_tokens=77, idle_tax=0.1).description()
    assert (description.kv_tokens, description.idle_tax) == (77, 0.1)
    assert some_settings().description() == some_settings().engine


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("h200", "no engine 'h200', there are: a40_7b, gb10_30b_moe, h100_8b"),
        ("{", "OUTRIDER_TWIN: "),
        ({"engine": "h100_8b", "time_faktor": 2}, "time_faktor: Extra inputs"),
        ({"engine": "h100_8b", "time_factor": 0}, "time_factor: "),
        ({"engine": "h100_8b", "texts": {"code": 1}}, "no class code, there are: gsm8k"),
        ({"engine": "h100_8b", "texts": {"cnn": 0}}, "one weight must be above 0"),
        ({"engine": {"kv_tokens": 5}}, "an engine has either step_time or throughput"),
        (
            {"engine": {"step_time": {"fixed": 1}, "kv_tokens": 5, "survival": {"x": [0.5, 0.6]}}},
            "survival.x must not increase",
        ),
        ({"engine": {"step_time": {"fixed": 0}, "kv_tokens": 5}}, "engine.step_time.fixed: "),
    ],
    ids=str,
)
def test_a_complaint_names_the_place(given: object, complaint: str) -> None:
    text = given if isinstance(given, str) else json.dumps(given)
    with pytest.raises(SettingsError) as refused:
        parse_settings(text)
    assert complaint in str(refused.value)


A_TABLE = {
    "batch_sizes": [1, 2],
    "num_speculative_tokens": [0, 1],
    "tokens_per_second": [[1, 2], [3, 4]],
    "prompt_token_seconds": 0,
}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"batch_sizes": [2, 1]}, "batch_sizes must increase"),
        ({"tokens_per_second": [[1, 2]]}, "tokens_per_second must have 2 rows of 2 numbers"),
        ({"accepted_per_step": [[0, 1], [0]]}, "accepted_per_step must have 2 rows of 2 numbers"),
        ({"no_speculation_tokens_per_second": [1]}, "no_speculation_tokens_per_second must have 2 numbers"),
    ],
    ids=str,
)
def test_a_ragged_table_is_refused(change: dict[str, object], complaint: str) -> None:
    engine = {"throughput": {**A_TABLE, **change}, "kv_tokens": 5}
    with pytest.raises(ValueError, match=complaint):
        Settings.model_validate({"engine": engine})
