"""Flags of vLLM with several values: one flag with several words, or the flag again for each value."""

from __future__ import annotations

import shlex

import pytest
from pydantic import JsonValue

from outrider.importing.findings import Findings
from outrider.importing.flags import Flags, parse
from outrider.runtimes.flag_table import Form
from outrider.runtimes.vllm.flags import FLAGS


def read(line: str) -> tuple[Flags, Findings]:
    findings = Findings()
    return parse(shlex.split(line), FLAGS, findings).flags, findings


def test_a_flag_that_vllm_collects_is_written_again_for_each_value() -> None:
    assert FLAGS.form_of("middleware") is Form.APPEND
    assert FLAGS.words("middleware", ["a.b", "-c.d"]) == ["--middleware=a.b", "--middleware=-c.d"]
    assert FLAGS.words("middleware", "a.b") == ["--middleware=a.b"]


@pytest.mark.parametrize("value", [True, False])
def test_a_flag_that_vllm_collects_takes_no_yes_or_no(value: bool) -> None:
    with pytest.raises(ValueError, match="vLLM takes a value for this flag"):
        FLAGS.words("middleware", value)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("--middleware a.b", "a.b"),
        ("--middleware a.b --middleware=c.d", ["a.b", "c.d"]),
        ("--middleware a.b --middleware a.b --middleware e.f", ["a.b", "a.b", "e.f"]),
    ],
)
def test_every_value_of_a_repeated_flag_is_imported(line: str, value: JsonValue) -> None:
    flags, findings = read(line)
    assert flags == {"middleware": value}
    assert findings == Findings()


@pytest.mark.parametrize(
    "flag", ["allowed-media-domains", "cpu-offload-params", "offload-params", "collect-detailed-traces"]
)
def test_every_word_behind_a_flag_with_several_values_is_imported(flag: str) -> None:
    assert read(f"--{flag} a b --seed 1")[0] == {flag: ["a", "b"], "seed": 1}


@pytest.mark.parametrize("flag", ["device-ids", "custom-histogram-buckets"])
def test_a_flag_with_one_value_takes_one_word(flag: str) -> None:
    assert read(f"--{flag} a --seed 1")[0] == {flag: "a", "seed": 1}
    assert flag not in FLAGS.several
