"""The shipped tokenizer, read back without the library that wrote it."""

from __future__ import annotations

import json

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from examples.models.pad import WEIGHTS
from examples.models.shapes import (
    CHAT_TEMPLATE,
    END_OF_TEXT,
    VOCABULARY_SIZE,
)


@pytest.mark.parametrize("name", ["target", "drafter"])
def test_the_models_agree_with_the_vocabulary(name: str) -> None:
    config = json.loads((WEIGHTS / name / "config.json").read_text())
    assert (config["vocab_size"], config["eos_token_id"]) == (VOCABULARY_SIZE, END_OF_TEXT)


CHAT = [{"role": "system", "content": "Short answers."}, {"role": "user", "content": "def main():"}]


def shipped_template(name: str) -> str:
    settings = json.loads((WEIGHTS / name / "tokenizer_config.json").read_text())
    template: str = settings["chat_template"]
    return template


@pytest.mark.parametrize("name", ["target", "drafter"])
def test_a_chat_is_what_was_said_line_by_line(name: str) -> None:
    said = ImmutableSandboxedEnvironment().from_string(shipped_template(name)).render(messages=CHAT)
    assert said == "Short answers.\ndef main():"


@pytest.mark.parametrize("name", ["target", "drafter"])
def test_the_shipped_models_chat_as_new_ones_would(name: str) -> None:
    assert shipped_template(name) == CHAT_TEMPLATE
