"""Prompts that the tiny models have not seen: the beginnings of lines of held-out documents."""

from __future__ import annotations

import random
from collections.abc import Iterable
from enum import StrEnum

from examples.models.text import Document, code_documents, prose_documents

PROMPT_BYTES = 100
"""Three blocks of the prefix cache and a few bytes more: a prompt that comes again costs next to nothing."""
PROMPTS = 32
SEED = 7


class Kind(StrEnum):
    """Class of the text. The drafter was trained on code only."""

    CODE = "code"
    PROSE = "prose"


def prompts(kind: Kind) -> tuple[str, ...]:
    """PROMPTS different prompts of PROMPT_BYTES ASCII characters each; the same on every call."""
    documents = code_documents if kind is Kind.CODE else prose_documents
    return chosen(documents(held_out=True), count=PROMPTS, length=PROMPT_BYTES, seed=SEED)


def chosen(documents: Iterable[Document], *, count: int, length: int, seed: int) -> tuple[str, ...]:
    """`count` pieces of text, each starting at a line, spread evenly over the documents.

    Raises:
        ValueError: there is too little text.
    """
    chooser = random.Random(seed)
    pieces = [_pieces(document.text, length, chooser) for document in documents]
    taken: dict[str, None] = {}
    for rank in range(max(map(len, pieces), default=0)):
        for own in pieces:
            if rank < len(own):
                taken.setdefault(own[rank])
    if len(taken) < count:
        raise ValueError(f"only {len(taken)} of {count} prompts in the held-out text")
    return tuple(taken)[:count]


def _pieces(text: str, length: int, chooser: random.Random) -> list[str]:
    """Every line start of a text with `length` ASCII characters after it, shuffled."""
    ends = [0, *(index + 1 for index, character in enumerate(text) if character == "\n")]
    pieces = [text[start : start + length] for start in ends if start + length <= len(text)]
    pieces = [piece for piece in pieces if piece.isascii() and piece.strip()]
    chooser.shuffle(pieces)
    return pieces
