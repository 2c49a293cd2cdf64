"""``$(NAME)`` of a container: read as Kubernetes replaces it, and named where the source has no value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outrider.importing.environment import values_of
from tests.unit.importing.kit import FROM_CONFIG_MAP, IMAGE, an_engine, findings, spec_of, why_refused

NOT_HERE = "$(X) gets its value from a Secret, a ConfigMap or a field, so the source does not have it"


def values(*entries: tuple[str, str]) -> dict[str, str]:
    return values_of({"env": [{"name": name, "value": value} for name, value in entries]})


def with_unknown(*args: str, **more: Any) -> dict[str, Any]:
    return an_engine(*args, env=[{"name": "X", **FROM_CONFIG_MAP}], **more)


def test_a_variable_may_name_those_before_it() -> None:
    env = [{"name": "ORG", "value": "Qwen"}, {"name": "FULL", "value": "$(ORG)/Qwen3-8B"}]
    assert spec_of(an_engine("--model=$(FULL)", env=env))["model"]["uri"] == "hf://Qwen/Qwen3-8B"
    assert values(("A", "1"), ("B", "$(A)2"), ("C", "$(B)3"))["C"] == "123"


def test_a_variable_behind_it_and_an_unknown_one_stay_as_they_are_written() -> None:
    assert values(("A", "$(B)$(NONE)"), ("B", "1"))["A"] == "$(B)$(NONE)"


def test_two_dollars_are_one_and_replace_nothing() -> None:
    assert values(("A", "1"), ("B", "$$(A) $$5"))["B"] == "$(A) $5"


def test_the_last_entry_of_a_name_counts() -> None:
    assert values(("A", "1"), ("A", "2"), ("B", "$(A)")) == {"A": "2", "B": "2"}
    assert values_of({"env": [{"name": "A", "value": "1"}, {"name": "A", **FROM_CONFIG_MAP}]}) == {}


def test_a_secret_in_plain_text_is_known_to_no_other_variable() -> None:
    assert values(("API_KEY", "s3cr3tvalue0"), ("B", "$(API_KEY)")) == {"B": "$(API_KEY)"}


FIELDS = {
    "--tensor-parallel-size": "spec.parallelism.tensor",
    "--pipeline-parallel-size": "spec.parallelism.pipeline",
    "--data-parallel-size": "spec.parallelism.data",
    "--served-model-name": "spec.model.servedName",
    "--max-model-len": "spec.model.maxLength",
    "--revision": "spec.model.revision",
    "--port": "spec.engine.port",
}


@pytest.mark.parametrize("flag", FIELDS)
def test_a_flag_without_a_value_in_the_source_is_named_with_the_field_to_set(flag: str) -> None:
    container = with_unknown("a/b", f"{flag}=$(X)")
    assert findings(container)[flag] == f"{NOT_HERE}; set {FIELDS[flag]}"
    assert "$(" not in json.dumps({**spec_of(container), "podTemplate": None})


def test_names_with_a_value_stay_beside_one_without() -> None:
    model = spec_of(with_unknown("a/b", "--served-model-name", "one", "$(X)", "two"))["model"]
    assert (model["servedName"], model["servedAliases"]) == ("one", ["two"])


def test_a_flag_of_vllm_keeps_the_variable_which_kubernetes_replaces_in_the_new_pod_too() -> None:
    assert spec_of(with_unknown("a/b", "--dtype=$(X)"))["engine"]["args"] == {"dtype": "$(X)"}


def test_words_and_a_speculative_configuration_without_a_value_are_named() -> None:
    assert findings(with_unknown("a/b", "$(X)"))["word $(X)"].startswith(f"{NOT_HERE}; write its flags")
    refused = why_refused(with_unknown("a/b", "--speculative-config=$(X)"))
    assert refused.startswith(f"--speculative-config: {NOT_HERE}; write an object")


def test_a_draft_length_without_a_value_is_named() -> None:
    ngram = with_unknown("a/b", "--spec-method=ngram", "--spec-tokens=$(X)")
    assert findings(ngram)["numSpeculativeTokens"] == f"{NOT_HERE}; Outrider wrote 3"
    block = with_unknown("a/b", "--spec-method=dflash", "--spec-model=a/head", "--spec-tokens=$(X)")
    assert NOT_HERE in findings(block)["--speculative-config"]


def test_an_algorithm_of_sglang_without_a_value_is_named() -> None:
    command = ["python3", "-m", "sglang.launch_server"]
    container = with_unknown(
        "--model-path=a/b", "--speculative-algorithm=$(X)", command=command, image="lmsysorg/sglang:v0.5.23"
    )
    assert NOT_HERE in findings(container)["--speculative-algorithm $(X)"]
    assert IMAGE not in json.dumps(spec_of(container))
