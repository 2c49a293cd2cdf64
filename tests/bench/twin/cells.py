"""What an engine does at so many streams and one K, by its own counters, and the table of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from examples.kit.lateness import is_void
from outrider_twin.throughput import survival_from


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement. accepted: mean accepted tokens per draft; 0 without drafts."""

    streams: int
    k: int
    tokens: float
    steps: float
    engine_seconds: float
    accepted: float

    @property
    def tokens_per_second(self) -> float:
        """Of engine time."""
        return self.tokens / self.engine_seconds


def text_of(streams: int) -> str:
    """The class of text of a load: other requests run in each, and their drafts fare differently."""
    return f"{streams} streams"


def description(cells: Sequence[Cell], *, kv_tokens: int) -> Mapping[str, object]:
    """The engine for the stand-in.

    Its throughputs are those of steps in which every request emits as much as its drafts allow. The first
    token of a request and the last draft, which is cut, emit less, on the engine and on the stand-in.
    Prompts cost nothing beside a step: they are short, and the step times contain what they cost.
    """
    streams, ks = sorted({cell.streams for cell in cells}), sorted({cell.k for cell in cells})
    found = {(cell.streams, cell.k): cell for cell in cells}
    mean = {k: sum(found[b, k].accepted for b in streams) / len(streams) for k in ks}
    return {
        "source": "measured on the CPU engine by tests.bench.twin",
        "throughput": {
            "batch_sizes": streams,
            "num_speculative_tokens": ks,
            "tokens_per_second": [
                [b * found[b, k].steps / found[b, k].engine_seconds * (1 + mean[k]) for k in ks]
                for b in streams
            ],
            "accepted_per_step": [[mean[k] for k in ks]] * len(streams),
            "prompt_token_seconds": 0.0,
        },
        "survival": {text_of(b): survival_from(ks, [found[b, k].accepted for k in ks]) for b in streams},
        "kv_tokens": kv_tokens,
    }


@dataclass(frozen=True, slots=True)
class Pair:
    """The same cell on the engine and on its stand-in. late: share of the scheduled time."""

    engine: Cell
    twin: Cell
    late: float

    @property
    def error(self) -> float:
        """Of the stand-in's tokens per second, relative."""
        return self.twin.tokens_per_second / self.engine.tokens_per_second - 1.0


def verdict(pairs: Sequence[Pair], *, largest_error: float) -> str:
    """``passed``, ``failed``, or ``void`` where the machine had no time for the stand-in."""
    if any(is_void(pair.late) for pair in pairs):
        return "void"
    return "passed" if all(abs(pair.error) <= largest_error for pair in pairs) else "failed"
