"""Values of engine flags stay values, whatever they look like."""

from __future__ import annotations

import argparse
import datetime
import json
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from pydantic import ValidationError

from outrider.api.reasons import DegradedReason
from outrider.plan import Plan
from tests.unit.plan.factories import a_model, a_plan, arguments

ONE, MANY, SWITCH = "seed", "allowed-origins", "enforce-eager"


def planned(**args: object) -> Plan:
    return a_plan(a_model(engine={"args": {name.replace("_", "-"): value for name, value in args.items()}}))


def understood(result: Plan) -> argparse.Namespace:
    """The planned words as argparse reads them, by which vLLM's parser does. Nothing may be left over."""
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=True)
    planned_flags = ("model", "served-model-name", "port", "max-num-seqs", "gpu-memory-utilization")
    for flag in (*planned_flags, "shutdown-timeout", "speculative-config", "api-key", ONE):
        parser.add_argument(f"--{flag}")
    parser.add_argument(f"--{MANY}", nargs="*")
    parser.add_argument(f"--{SWITCH}", action=argparse.BooleanOptionalAction)
    return parser.parse_args(arguments(result))


def refusal(result: Plan) -> str:
    ((reason, message),) = result.problems
    assert reason is DegradedReason.INVALID_SPEC
    return message


def test_what_the_manifest_does_not_say_is_left_to_vllm() -> None:
    words = " ".join(arguments(planned()))
    for flag in ("max-num-seqs", "max-num-batched-tokens", "gpu-memory-utilization", "cudagraph"):
        assert flag not in words


@pytest.mark.parametrize("name", ["max_num_seqs", "max-num-seqs"])
def test_the_largest_batch_of_the_manifest_is_told_once(name: str) -> None:
    words = arguments(a_plan(a_model(engine={"args": {name: 64}})))
    assert [word for word in words if "seqs" in word] == ["--max-num-seqs=64"]


@pytest.mark.parametrize(
    ("key", "on", "off"),
    [
        ("enable-prefix-caching", ["--enable-prefix-caching"], ["--no-enable-prefix-caching"]),
        ("async-scheduling", ["--async-scheduling"], ["--no-async-scheduling"]),
        ("enable-prefix-cach", ["--enable-prefix-cach"], ["--no-enable-prefix-cach"]),
        ("no-enable-prefix-caching", ["--no-enable-prefix-caching"], ["--enable-prefix-caching"]),
        ("disable-prefix-caching", ["--disable-prefix-caching"], ["--enable-prefix-caching"]),
        ("dph", ["-dph"], ["--no-data-parallel-hybrid-lb"]),
        ("a-flag-of-a-plugin", ["--a-flag-of-a-plugin"], ["--no-a-flag-of-a-plugin"]),
    ],
)
def test_true_and_false_are_the_two_words_of_a_switch(key: str, on: list[str], off: list[str]) -> None:
    left_to_vllm = arguments(a_plan(a_model()))
    for value, words in ((True, on), (False, off)):
        assert [w for w in arguments(planned(**{key: value})) if w not in left_to_vllm] == words


def test_false_is_the_absence_of_a_flag_that_has_no_other_no() -> None:
    assert arguments(planned(aggregate_engine_logging=False)) == arguments(a_plan(a_model()))


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("key", ["kv-cache-dtype", "quantization", "q", "block-size", "attention-config"])
def test_true_and_false_are_refused_of_a_flag_that_takes_a_value(key: str, value: bool) -> None:
    message = refusal(planned(**{key: value}))
    assert message.startswith(f"spec.engine.args.{key}: vLLM takes a value")
    assert "leave the key out" in message


def test_two_spellings_of_one_flag_are_refused() -> None:
    with pytest.raises(ValidationError, match="max-num-seqs and max_num_seqs are one flag"):
        a_model(engine={"args": {"max-num-seqs": 8, "max_num_seqs": 16}})


def test_the_no_of_a_flag_that_outrider_sets_is_refused_too() -> None:
    with pytest.raises(ValidationError, match=r"set spec\.parallelism\.expert"):
        a_model(engine={"args": {"no-enable-expert-parallel": True}})


@pytest.mark.parametrize(
    "value", ["--api-key", "--api-key=x", "--", ["0", "--api-key", "x"], ["--api-key=x"]]
)
def test_a_value_that_begins_like_a_flag_is_refused_by_its_flag(value: object) -> None:
    message = refusal(planned(seed=value))
    assert message.startswith("spec.engine.args.seed: --")
    assert "write each flag under its own name" in message


@pytest.mark.parametrize("item", ["-O3", "-", "-x y", "-0.5", -0.5, "-1e3", "-\n1"])
def test_one_of_several_values_does_not_begin_with_a_dash_unless_it_is_a_whole_number(item: object) -> None:
    assert "would be read as a flag" in refusal(planned(allowed_origins=["a", item]))


def test_negative_whole_numbers_may_be_several() -> None:
    assert understood(planned(allowed_origins=[-1, "-20", 3])).allowed_origins == ["-1", "-20", "3"]


@pytest.mark.parametrize("value", [-1, "-1", -0.5, "-x", "-O3", "a=b", "a b", "", '{"a": "--b"}'])
def test_a_single_value_is_read_as_it_was_written(value: object) -> None:
    assert understood(planned(seed=value)).seed == str(value)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (
            "attention-config",
            {"use_prefill_query_quantization": True},
            ['--attention-config={"use_prefill_query_quantization":true}'],
        ),
        (
            "compilation-config",
            {"pass_config": {"fuse_allreduce_rms": True}, "sizes": [1, [2]]},
            ['--compilation-config={"pass_config":{"fuse_allreduce_rms":true},"sizes":[1,[2]]}'],
        ),
        ("cc.pass_config", {"fuse_allreduce_rms": True}, ['-cc.pass_config={"fuse_allreduce_rms":true}']),
        ("cc.pass_config.fuse_allreduce_rms", True, ["-cc.pass_config.fuse_allreduce_rms=true"]),
        ("ac.backend", "FLASH_ATTN", ["-ac.backend=FLASH_ATTN"]),
        ("dcp", 4, ["-dcp=4"]),
        ("q", "fp8", ["-q=fp8"]),
        ("O", 3, ["-O=3"]),
        ("compilation-config.ranges", [[1, 2], [3, 4]], ["--compilation-config.ranges=[[1,2],[3,4]]"]),
        (
            "lora-modules",
            [{"name": "a", "path": "/b"}, "c=/d"],
            ["--lora-modules", '{"name":"a","path":"/b"}', "c=/d"],
        ),
    ],
)
def test_short_flags_and_nested_yaml_are_written_as_vllm_reads_them(
    key: str, value: object, words: list[str]
) -> None:
    left_to_vllm = arguments(a_plan(a_model()))
    assert [
        w for w in arguments(a_plan(a_model(engine={"args": {key: value}}))) if w not in left_to_vllm
    ] == words


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "leave the key out"),
        ([None], "must be true or false, a number, a text, or a list of these"),
        ([[1]], "must be true or false, a number, a text, or a list of these"),
        ({"when": datetime.date(2026, 1, 1)}, "write dates and the like as texts"),
        ({"x": float("inf")}, "write dates and the like as texts"),
    ],
)
def test_what_no_flag_can_hold_is_refused_by_its_key(value: object, told: str) -> None:
    with pytest.raises(ValidationError, match=rf"spec\.engine\.args\.seed: .*{told}"):
        a_model(engine={"args": {"seed": value}})


def test_an_object_that_is_nested_without_end_is_refused() -> None:
    deep: dict[str, object] = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(ValidationError, match="nested deeper than"):
        a_model(engine={"args": {"compilation-config": deep}})


def test_a_part_of_a_json_flag_is_one_word_whatever_its_type() -> None:
    args = {"compilation-config.level": 3, "compilation-config.on": True, "compilation-config.sizes": [1, 2]}
    words = arguments(a_plan(a_model(engine={"args": args})))
    assert words[-3:] == [
        "--compilation-config.level=3",
        "--compilation-config.on=true",
        "--compilation-config.sizes=[1, 2]",
    ]


texts = st.sampled_from(
    ["--api-key", "--api-key=x", "-1", "-0.5", "-x", "--", "-", "a", "=b", "--seed"]
) | st.text(max_size=8)
scalars = st.integers(-5, 5) | st.floats(-2, 2) | texts


@given(
    one=scalars,
    many=st.lists(scalars, min_size=1, max_size=3),
    switch=st.booleans(),
)
def test_whatever_the_values_are_they_are_refused_or_read_as_what_they_are(
    one: Any, many: list[Any], switch: bool
) -> None:
    result = a_plan(a_model(engine={"args": {ONE: one, MANY: many, SWITCH: switch}}))
    if result.problems:
        event("refused")
        assert "would be read as a flag" in refusal(result)
        assert any(str(value).startswith("-") for value in [one, *many])
        return
    event("planned")
    read = understood(result)
    assert (read.seed, read.allowed_origins, read.enforce_eager) == (
        str(one),
        [str(value) for value in many],
        switch,
    )
    assert read.api_key is None
    assert json.loads(read.speculative_config)["num_speculative_tokens"] == 5
    assert read.port == "8000"
