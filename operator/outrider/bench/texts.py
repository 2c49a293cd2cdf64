"""Texts of a bench that are not its own: prompt sets by name, tasks of Spec-Bench's file, and a shape.

GuideLLM loads sets from the Hugging Face hub; none of their texts is part of this package.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class PromptSet(StrEnum):
    """A prompt set on the Hugging Face hub."""

    HUMANEVAL = "humaneval"
    GSM8K = "gsm8k"


class Task(StrEnum):
    """A task in Spec-Bench's file ``question.jsonl``. MT_BENCH stands for MT-Bench's eight categories."""

    MT_BENCH = "mt-bench"
    MATH = "math"
    RAG = "rag"
    TRANSLATION = "translation"
    SUMMARY = "summary"
    QUESTIONS = "questions"

    @property
    def categories(self) -> frozenset[str]:
        """As the file names them."""
        return _CATEGORIES[self]


_CATEGORIES: Mapping[Task, frozenset[str]] = {
    Task.MT_BENCH: frozenset(
        ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
    ),
    Task.MATH: frozenset(("math_reasoning",)),
    Task.RAG: frozenset(("rag",)),
    Task.TRANSLATION: frozenset(("translation",)),
    Task.SUMMARY: frozenset(("summarization",)),
    Task.QUESTIONS: frozenset(("qa",)),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """Lengths of synthetic requests, in tokens. tokenizer: a repository on the hub; it counts prompts."""

    prompt: int
    answer: int
    tokenizer: str = ""


class NotAShape(ValueError):
    """The text is not PROMPT/ANSWER."""


def shape_of(text: str) -> Shape:
    """Read ``512/256``.

    Raises:
        NotAShape: other text, or a length outside of 1 to 65,536.
    """
    found = re.fullmatch(r"([1-9]\d{0,4})/([1-9]\d{0,4})", text)
    if found is None or max(map(int, found.groups())) > 65_536:
        raise NotAShape(f"{text!r} has no two lengths; write tokens of prompt and answer such as 512/256")
    prompt, answer = map(int, found.groups())
    return Shape(prompt, answer)


@dataclass(frozen=True, slots=True)
class _OnHub:
    source: str
    column: str  # with the prompt
    split: str = "test"
    name: str = ""  # of a configuration


_SETS: Mapping[PromptSet, _OnHub] = {
    PromptSet.HUMANEVAL: _OnHub("openai/openai_humaneval", "prompt"),
    PromptSet.GSM8K: _OnHub("openai/gsm8k", "question", name="main"),
}


def data_words(texts: PromptSet | Shape | str) -> tuple[str, ...]:
    """GuideLLM's arguments for its prompts. A text names a file with one JSON object per line."""
    match texts:
        case Shape(prompt=prompt, answer=answer, tokenizer=tokenizer):
            return (
                *("--data", f"kind=synthetic_text,prompt_tokens={prompt},output_tokens={answer}"),
                *("--tokenizer", f"kind=huggingface_auto,model={tokenizer}"),
            )
        case PromptSet():
            there = _SETS[texts]
            name = f",load_kwargs.name={there.name}" if there.name else ""
            return (
                *("--data", f"kind=huggingface,source={there.source},load_kwargs.split={there.split}{name}"),
                "--data-column-mapper",
                f"kind=generative_column_mapper,column_mappings.text_column={there.column}",
            )
        case path:
            return ("--data", f"kind=json_file,path={path}")
