"""What is known of a kind of text beforehand: how often drafts are accepted, and how long they may be.

Acceptance is the published one of EAGLE-3 on Llama-3.1-8B (arXiv 2601.11580), by data set.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from outrider.sizing.sources import Evidence, Source

_PAPER = "arXiv 2601.11580, EAGLE-3 on Llama-3.1-8B"
SURVIVAL = {
    "gsm8k": (0.716, 0.482, 0.315, 0.206, 0.134),
    "sharegpt": (0.694, 0.46, 0.318, 0.23, 0.175),
    "instructcoder": (0.717, 0.52, 0.39, 0.302, 0.242),
    "cnn": (0.693, 0.462, 0.307, 0.209, 0.149),
}
"""Ratio of drafts whose position j was accepted."""


class Task(StrEnum):
    """Presets."""

    CHAT = "chat"
    CODE = "code"
    SUMMARY = "summary"
    RAG = "rag"
    AGENTS = "agents"


@dataclass(frozen=True, slots=True)
class Preset:
    """Where one task starts."""

    acceptance: tuple[float, ...]  # of each position, given the ones before
    acceptance_source: Source
    ceiling: int  # the largest K worth a launch
    ceiling_source: Source


def _preset(
    data: str, ceiling: int, why_ceiling: str, *, guess: str = "", ceiling_evidence: Evidence = Evidence.READ
) -> Preset:
    """guess: why the acceptance of this data set is taken for the task; empty: it is of this task."""
    shares = (1.0, *SURVIVAL[data])
    where = f"{data} in {_PAPER}"
    return Preset(
        tuple(after / before for before, after in pairwise(shares)),
        Source("acceptance", Evidence.ASSUMED, f"{where}; {guess}")
        if guess
        else Source("acceptance", Evidence.READ, where),
        ceiling,
        Source("largest K", ceiling_evidence, why_ceiling),
    )


PRESETS: dict[Task, Preset] = {
    Task.CHAT: _preset("sharegpt", 5, "rule of thumb: start with 3 to 5"),
    Task.CODE: _preset("instructcoder", 7, "rule of thumb: 6 to 8 for code"),
    Task.SUMMARY: _preset("cnn", 3, "rule of thumb: 2 to 3 is the common sweet spot"),
    Task.RAG: _preset(
        "cnn", 5, "rule of thumb: 5 for retrieval", guess="answers repeat their sources as summaries do"
    ),
    Task.AGENTS: _preset(
        "gsm8k",
        5,
        "as for chat",
        guess="nothing is published of agents, this is reasoning in steps",
        ceiling_evidence=Evidence.ASSUMED,
    ),
}
