"""The shipped tokenizer, read back without the library that wrote it."""

from __future__ import annotations

import json

import pytest

from examples.models.pad import WEIGHTS
from examples.models.shapes import END_OF_TEXT, END_OF_TEXT_TOKEN, VOCABULARY_SIZE, byte_characters

TOKENIZER = json.loads((WEIGHTS / "target" / "tokenizer.json").read_text())


def test_every_byte_is_its_own_token() -> None:
    vocabulary = TOKENIZER["model"]["vocab"]
    assert [vocabulary[character] for character in byte_characters()] == list(range(256))


def test_tokens_are_never_merged() -> None:
    assert TOKENIZER["model"]["merges"] == []


def test_text_is_taken_as_it_is() -> None:
    step = TOKENIZER["pre_tokenizer"]
    assert (step["type"], step["add_prefix_space"], step["use_regex"]) == ("ByteLevel", False, False)
    assert TOKENIZER["normalizer"] is None
    assert TOKENIZER["post_processor"] is None


def test_the_end_mark_is_the_last_token() -> None:
    (added,) = TOKENIZER["added_tokens"]
    assert (added["content"], added["id"], added["special"]) == (END_OF_TEXT_TOKEN, END_OF_TEXT, True)
    assert VOCABULARY_SIZE == END_OF_TEXT + 1


@pytest.mark.parametrize("name", ["target", "drafter"])
def test_the_models_agree_with_the_vocabulary(name: str) -> None:
    config = json.loads((WEIGHTS / name / "config.json").read_text())
    assert (config["vocab_size"], config["eos_token_id"]) == (VOCABULARY_SIZE, END_OF_TEXT)
