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


def _preset(data: str, evidence: Evidence, why: str, ceiling: int, ceiling_source: Source) -> Preset:
    shares = (1.0, *SURVIVAL[data])
    acceptance = tuple(after / before for before, after in pairwise(shares))
    where = f"{data} in {_PAPER}"
    return Preset(
        acceptance,
        Source("acceptance", evidence, f"{where}; {why}" if why else where),
        ceiling,
        ceiling_source,
    )


def _ceiling(evidence: Evidence, where: str) -> Source:
    return Source("largest K", evidence, where)


PRESETS: dict[Task, Preset] = {
    Task.CHAT: _preset(
        "sharegpt", Evidence.READ, "", 5, _ceiling(Evidence.READ, "rule of thumb: start with 3 to 5")
    ),
    Task.CODE: _preset(
        "instructcoder", Evidence.READ, "", 7, _ceiling(Evidence.READ, "rule of thumb: 6 to 8 for code")
    ),
    Task.SUMMARY: _preset(
        "cnn", Evidence.READ, "", 3, _ceiling(Evidence.READ, "rule of thumb: 2 to 3 is the common sweet spot")
    ),
    Task.RAG: _preset(
        "cnn",
        Evidence.ASSUMED,
        "answers repeat their sources as summaries do",
        5,
        _ceiling(Evidence.READ, "rule of thumb: 5 for retrieval"),
    ),
    Task.AGENTS: _preset(
        "gsm8k",
        Evidence.ASSUMED,
        "nothing is published of agents, this is reasoning in steps",
        5,
        _ceiling(Evidence.ASSUMED, "as for chat"),
    ),
}
