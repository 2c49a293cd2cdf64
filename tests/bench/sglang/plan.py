"""The engine, its texts and the traffic. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

CANDIDATES = (0, 1, 3, 5, 7)
"""All steps of SGLang's default lists, for every arm."""
START = 3
"""The steps at which SGLang's adaptive mode begins by default: the middle of its candidates."""
MAX_NUM_SEQS = 32
CODE, PROSE = "code", "prose"
CHANCES = {
    CODE: (0.9, 0.9, 0.88, 0.88, 0.85, 0.85, 0.85),
    PROSE: (0.3, 0.25, 0.2, 0.2, 0.2, 0.2, 0.2),
}
"""Acceptance by position, given that the position before was accepted."""
STEP_TIMES = {
    # SpecDecode-Bench (arXiv 2601.11580), as in the simulated vLLM. At K=0 SGLang's drafter runs once.
    "h100_8b": (
        {
            "fixed": 0.00709274659,
            "per_kv_token": 3.92645679e-08,
            "per_token": 2.10103129e-05,
            "draft_fixed": 0.00213526175,
            "draft_per_kv_token": 2.37768493e-09,
            "draft_per_token": 8.41429603e-07,
        },
        0.3,
    ),
    # Invented: it runs out of compute at small batches, as in the benchmark of the tuning rule.
    "small": (
        {
            "fixed": 0.02,
            "per_kv_token": 5e-8,
            "per_token": 6e-4,
            "draft_fixed": 1.5e-3,
            "draft_per_kv_token": 5e-9,
            "draft_per_token": 5e-5,
        },
        0.075,
    ),
}
"""Coefficients of a round, and the relative time of the drafter at K=0."""


@dataclass(frozen=True, slots=True)
class Load:
    """Streams that each ask for one answer after the other. texts: of the streams, by turns."""

    streams: int
    texts: tuple[str, ...]

    @property
    def name(self) -> str:
        """Such as ``8 code+prose``."""
        return f"{self.streams} {'+'.join(self.texts)}"


@dataclass(frozen=True, slots=True)
class Phase:
    """One kind of traffic: loads of equal length, one after the other."""

    name: str
    loads: tuple[Load, ...]
    seconds: float  # of each load, in engine time


def phases(scale: float = 1.0) -> tuple[Phase, ...]:
    """All kinds of traffic. scale: of their length."""
    code, prose, both = (CODE,), (PROSE,), (CODE, PROSE)
    ramp = tuple(Load(streams, code) for streams in (1, 4, 16, 32, 8, 1))
    turns = tuple(Load(8, code if index % 2 == 0 else prose) for index in range(4))
    return (
        Phase("1 stream, code", (Load(1, code),), 15 * scale),
        Phase("16 streams, both texts at once", (Load(16, both),), 20 * scale),
        Phase("ramp of 1 to 32 streams, code", ramp, 6 * scale),
        Phase("8 streams, texts by turns", turns, 30 * scale),
        Phase("32 streams, prose", (Load(32, prose),), 15 * scale),
    )


def loads(of: Sequence[Phase]) -> tuple[Load, ...]:
    """Each load once."""
    return tuple(dict.fromkeys(load for phase in of for load in phase.loads))


def settings(engine: str, time_factor: float, seed: int) -> dict[str, object]:
    """The value of ``OUTRIDER_TWIN``."""
    step, idle_tax = STEP_TIMES[engine]
    survival = {name: _survival(chances) for name, chances in CHANCES.items()}
    description = {
        "name": engine,
        "step_time": step,
        "survival": survival,
        "kv_tokens": 400_000,
        "idle_tax": idle_tax,
    }
    return {"engine": description, "time_factor": time_factor, "seed": seed}


def _survival(chances: Sequence[float]) -> list[float]:
    found, left = [], 1.0
    for chance in chances:
        left *= chance
        found.append(left)
    return found
