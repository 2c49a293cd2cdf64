"""The byte tokenizer: token id = byte value, plus one that ends a document."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from examples.models.shapes import (
    CHAT_TEMPLATE,
    END_OF_TEXT,
    END_OF_TEXT_TOKEN,
    MAX_POSITIONS,
    byte_characters,
)


def byte_tokenizer() -> Tokenizer:
    """A BPE tokenizer without merges, so that every string becomes its UTF-8 bytes."""
    vocabulary = {character: byte for byte, character in enumerate(byte_characters())}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(END_OF_TEXT_TOKEN, special=True, normalized=False)])
    assert tokenizer.token_to_id(END_OF_TEXT_TOKEN) == END_OF_TEXT
    return tokenizer


def save_tokenizer(folder: Path) -> None:
    """Write what transformers and vLLM need to load it without a network."""
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_OF_TEXT_TOKEN,
        "pad_token": END_OF_TEXT_TOKEN,
        "model_max_length": MAX_POSITIONS,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
