"""What the figures say. Nothing that did not run is ever met."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Whether a figure keeps to its limit."""

    MET = "met"
    NOT_MET = "not met"
    UNCLEAR = "unclear"
    """The interval holds the limit: more pairs, or a quieter machine."""
    SHOWN = "shown"
    """A figure without a limit."""
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the result. limit_percent: of what the first arm may cost more than the second; None for a
    check without one."""

    name: str
    limit_percent: float | None
    verdict: Verdict
    figures: Mapping[str, object]


EXIT_MET, EXIT_NOT_MET, EXIT_NO_GPU = 0, 1, 2
FEWEST_PAIRS = 4
FEWEST_CELLS = 3
SAME_BATCH = 0.02
"""By which the mean batch of a live cell may lie beyond those of the map, or count as one of them."""


def of_cost(name: str, cost: Mapping[str, object], *, limit_percent: float | None) -> Check:
    """Judge what `tests.bench.k0.statistics.relative_cost` gave. Without a limit it is only shown."""
    match cost:
        case {"pairs": int(pairs), "interval_95_percent": [float(low), float(high)]} if pairs >= FEWEST_PAIRS:
            if limit_percent is None:
                verdict = Verdict.SHOWN
            elif high <= limit_percent:
                verdict = Verdict.MET
            else:
                verdict = Verdict.NOT_MET if low > limit_percent else Verdict.UNCLEAR
        case _:
            verdict = Verdict.NOT_RUN
    return Check(name, limit_percent, verdict, cost)


def of_fact(name: str, holds: bool | None, figures: Mapping[str, object]) -> Check:
    """Judge a statement. holds: None where the engine did not show it."""
    verdict = Verdict.NOT_RUN if holds is None else Verdict.MET if holds else Verdict.NOT_MET
    return Check(name, None, verdict, figures)


@dataclass(frozen=True, slots=True)
class Cell:
    """Mean step time at one place. seconds: of a step; context: tokens per request."""

    batch: float
    k: int
    context: float
    seconds: float


def of_map(name: str, mapped: Sequence[Cell], live: Sequence[Cell], *, limit_percent: float) -> Check:
    """Judge a map of step times by live cells at the same places."""
    errors = {}
    for cell in live:
        expected = at(mapped, cell)
        if expected is not None:
            errors[f"batch {round(cell.batch)}, K {cell.k}"] = 100 * (expected / cell.seconds - 1)
    figures: dict[str, object] = {
        "errors_percent": {place: round(error, 2) for place, error in errors.items()},
        "live_cells": len(live),
    }
    if len(errors) < FEWEST_CELLS:
        return Check(name, limit_percent, Verdict.NOT_RUN, figures)
    mean = statistics.fmean(abs(error) for error in errors.values())
    verdict = Verdict.MET if mean <= limit_percent else Verdict.NOT_MET
    return Check(name, limit_percent, verdict, {**figures, "mean_percent": round(mean, 2)})


def at(mapped: Sequence[Cell], place: Cell) -> float | None:
    """Seconds by the map, along lines between its batch sizes and contexts; None beyond its batch sizes."""
    cells = [cell for cell in mapped if cell.k == place.k]
    sizes = sorted({cell.batch for cell in cells})
    below = [size for size in sizes if size <= place.batch * (1 + SAME_BATCH)]
    above = [size for size in sizes if size >= place.batch * (1 - SAME_BATCH)]
    if not below or not above:
        return None
    low, high = below[-1], above[0]
    share = (place.batch - low) / (high - low) if low < high else 0.0
    first, last = (
        _at_context([cell for cell in cells if cell.batch == size], place.context) for size in (low, high)
    )
    return first + share * (last - first)


def _at_context(cells: Sequence[Cell], context: float) -> float:
    """Seconds along a line between the contexts of one batch size and K, and beyond them as at their ends."""
    ordered = sorted(cells, key=lambda cell: cell.context)
    first, last = ordered[0], ordered[-1]
    if first.context == last.context:
        return first.seconds
    share = (context - first.context) / (last.context - first.context)
    return first.seconds + min(1.0, max(0.0, share)) * (last.seconds - first.seconds)


def exit_status(checks: Sequence[Check]) -> int:
    """0 only where there was something to judge, every limit is met and every figure shown."""
    judged = [check for check in checks if check.verdict is not Verdict.SHOWN]
    return EXIT_MET if judged and all(c.verdict is Verdict.MET for c in judged) else EXIT_NOT_MET
