"""The last thing on the screen: tokens per second of every arm, phase by phase."""

from __future__ import annotations

from rich.table import Table

from examples.demo.report import number
from examples.demo.result import Result


def summary(result: Result) -> Table:
    """Tokens per second; the static arms as the mean of their slices."""
    table = Table(title="Tokens per second", title_justify="left")
    largest = f"K = {result.conditions.largest_k} held"
    headings = ("phase", "Outrider, 2nd half", "Outrider, whole", "K = 0 held", largest, "K", "acceptance")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "phase" else "right")
    for phase in result.phases:
        table.add_row(
            phase.phase,
            number(phase.outrider_second_half),
            number(phase.outrider_whole_phase),
            number(phase.static_zero.mean),
            number(phase.static_largest.mean),
            f"{number(phase.k_at_start)} -> {number(phase.k_at_end)}",
            number(phase.acceptance_rate, digits=2),
        )
    return table
