"""``spec.speculation`` of an import: what the source's configuration becomes, and why Outrider chooses."""

from __future__ import annotations

import json

import pytest
import yaml

from outrider.importing import text_of
from tests.unit.importing.kit import an_engine, findings, imported, spec_of

NGRAM = {"method": "ngram", "num_speculative_tokens": 3}


def configured(**config: object) -> dict[str, object]:
    return an_engine("Qwen/Qwen3-8B", f"--speculative-config={json.dumps(config)}")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (
            {"method": "mlp_speculator", "model": "a/head", "num_speculative_tokens": 3},
            ": method mlp_speculator is not available",
        ),
        ({"method": "guesses"}, ": Outrider does not know the method guesses"),
        ({"method": "eagle3"}, ": method eagle3 needs a drafter, and the source names none"),
        (
            {"method": "dflash", "model": "a/head"},
            ": method dflash needs num_speculative_tokens, the block length of its head",
        ),
        ({"num_speculative_tokens": 3}, ""),
    ],
)
def test_a_first_choice_says_why_the_speculation_of_the_source_is_not_launched(
    config: dict[str, object], reason: str
) -> None:
    source = configured(**config)
    first, *_ = imported(source).comments["speculation"]
    assert first == (
        f"Outrider does not launch the speculation of the source{reason}. Outrider chose the EAGLE-3 head "
        "that is published for this model."
    )
    assert "--speculative-config" in findings(source)


def test_a_first_choice_says_so_for_an_algorithm_of_sglang_too() -> None:
    words = ("--model-path=a/b", "--speculative-algorithm=GUESSES")
    command = ["python3", "-m", "sglang.launch_server"]
    source = an_engine(*words, command=command, image="lmsysorg/sglang:v0.5.23")
    first, *_ = imported(source).comments["speculation"]
    assert first.startswith("Outrider does not launch the speculation of the source. ")


def test_a_source_without_speculation_drafts_nothing() -> None:
    first, *_ = imported(an_engine("Qwen/Qwen3-8B")).comments["speculation"]
    assert first.startswith("The source drafts nothing. ")


def test_no_method_of_a_source_ends_the_comment() -> None:
    text = text_of(imported(configured(method="a\nspec: {}\n#")))
    assert yaml.safe_load(text)["spec"]["model"]["uri"] == "hf://Qwen/Qwen3-8B"


def test_a_key_that_no_supported_vllm_has_is_named_and_not_carried() -> None:
    source = configured(**NGRAM, disable_by_batch_size=4, prompt_lookup_max=5)
    assert spec_of(source)["speculation"]["config"] == {"prompt_lookup_max": 5}
    why = findings(source)["--speculative-config disable_by_batch_size"]
    assert why.endswith("has no such key, and ends where it gets one; leave it out")


def test_a_key_of_one_supported_release_is_carried() -> None:
    source = configured(**NGRAM, disable_lookahead_block_hashes=True)
    assert spec_of(source)["speculation"]["config"] == {"disable_lookahead_block_hashes": True}
