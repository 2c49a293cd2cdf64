"""The tiny models, and the byte vocabulary that they share."""

from __future__ import annotations

from dataclasses import dataclass

END_OF_TEXT = 256
"""Token ids 0 to 255 are the bytes; this one ends a document."""
END_OF_TEXT_TOKEN = "<|endoftext|>"
VOCABULARY_SIZE = 257
CONTEXT_TOKENS = 512
"""Length of a training sequence; beyond it the models have seen nothing."""
MAX_POSITIONS = 1024
CHAT_TEMPLATE = r"{{ messages | map(attribute='content') | join('\n') }}"
"""Chat template with the contents only: the models continue text, and roles would need room in 512 bytes."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of one Llama."""

    layers: int
    hidden: int
    intermediate: int
    heads: int


TARGET = Shape(layers=4, hidden=256, intermediate=704, heads=4)
DRAFTER = Shape(layers=1, hidden=128, intermediate=512, heads=2)
EAGLE3 = Shape(layers=1, hidden=256, intermediate=512, heads=4)
FEATURE_LAYERS = (1, 2, 3)
"""Layers of the target after which the EAGLE-3 head reads its hidden states; padding adds later ones."""
PADDED_TARGET = Shape(layers=12, hidden=256, intermediate=4096, heads=4)
"""Reads about 85 MB per step in bfloat16, so that a step costs real memory traffic."""


def byte_characters() -> list[str]:
    """The printable character that stands for each byte in byte-level BPE (GPT-2's mapping)."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    stand_in = {byte: chr(256 + index) for index, byte in enumerate(others)}
    return [stand_in.get(byte, chr(byte)) for byte in range(256)]
