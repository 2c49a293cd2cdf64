"""The last thing on the screen: tokens per second of every arm, phase by phase."""

from __future__ import annotations

from rich.table import Table

from examples.demo.report import number
from examples.demo.result import OwnPhase, Result, Simulated

OWN_HEADINGS = ("phase", "Outrider, 2nd half", "Outrider, whole")
LAST_HEADINGS = ("K", "acceptance")


def summary(result: Result) -> list[Table]:
    """Static arms as the mean of their slices. What is simulated has a table of its own."""
    return [_computed(result), *([_simulated(result.simulated)] if result.simulated else [])]


def _computed(result: Result) -> Table:
    largest = f"K = {result.conditions.largest_k} held"
    headings = (*OWN_HEADINGS, "K = 0 held", largest, *LAST_HEADINGS)
    table = _table(f"Tokens per second, {result.conditions.computed}", headings)
    for phase in result.phases:
        held = (number(phase.static_zero.mean), number(phase.static_largest.mean))
        table.add_row(*_own(phase), *held, *_last(phase))
    return table


def _simulated(found: Simulated) -> Table:
    table = _table(f"Tokens per second. {found.title}", (*OWN_HEADINGS, *LAST_HEADINGS))
    for phase in found.phases:
        table.add_row(*_own(phase), *_last(phase))
    return table


def _table(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "phase" else "right")
    return table


def _own(phase: OwnPhase) -> tuple[str, ...]:
    return (phase.phase, number(phase.outrider_second_half), number(phase.outrider_whole_phase))


def _last(phase: OwnPhase) -> tuple[str, ...]:
    k = f"{number(phase.k_at_start)} -> {number(phase.k_at_end)}"
    return (k, number(phase.acceptance_rate, digits=2))
