"""The last thing on the screen: tokens per second of every arm by phase, and gains beside the record's."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from examples.demo import beside_record
from examples.demo.beside_record import Published
from examples.demo.phases import Arm
from examples.demo.report import TOO_FEW, headline, number
from examples.demo.result import OwnPhase, Result, Simulated
from examples.demo.spread import OwnSpread, compared, own_spreads
from outrider.bench.verdict import Interval

OWN_HEADINGS = ("phase", "Outrider, after learning", "Outrider, with learning")
LAST_HEADINGS = ("mean K", "acceptance")


def summary(result: Result, published: Published) -> Iterator[RenderableType]:
    """What was computed, with its headline. What is simulated has a table of its own.

    Engines on GPUs get no rows of the record, which is of a CPU.
    """
    yield _computed(result)
    if result.simulated is not None:
        yield _simulated(result.simulated)
    yield Text(headline(result))
    if not result.conditions.on_gpus:
        yield _beside_record(result, published)


def _beside_record(result: Result, published: Published) -> Table:
    title = f"Gain of Outrider, and of the published runs ({published.name}, commit {published.commit})"
    table = Table(*beside_record.HEADINGS, title=title, title_justify="left", show_edge=False)
    for row in beside_record.rows(result, published):
        table.add_row(*row)
    return table


def _computed(result: Result) -> Table:
    largest = f"K = {result.conditions.largest_k} held"
    headings = (*OWN_HEADINGS, "K = 0 held", largest, *LAST_HEADINGS)
    table = _table(f"Tokens per second, {result.conditions.computed}", headings)
    spreads = own_spreads(result.stretches, result.acceptance)
    for phase, arms in zip(result.phases, compared(result), strict=True):
        spread = spreads[phase.phase]
        held = (
            _measured(arms.rate(Arm.NO_DRAFTS), phase.static_zero.mean),
            _measured(arms.rate(Arm.LONGEST_DRAFTS), phase.static_largest.mean),
        )
        table.add_row(*_own(phase, spread), *held, *_last(phase, spread))
    return table


def _simulated(found: Simulated) -> Table:
    table = _table(f"Tokens per second. {found.title}", (*OWN_HEADINGS, *LAST_HEADINGS))
    spreads = own_spreads(found.stretches, found.acceptance)
    for phase in found.phases:
        spread = spreads[phase.phase]
        table.add_row(*_own(phase, spread), *_last(phase, spread))
    return table


def _table(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(title=f"{title}; ± 95 %", title_justify="left", show_edge=False)
    for heading in headings:
        justify: JustifyMethod = "left" if heading == "phase" else "right"
        # Else 80 columns cut its heading, and break its figures, before those that have room.
        table.add_column(heading, justify=justify, no_wrap=heading == "acceptance")
    return table


def _own(phase: OwnPhase, spread: OwnSpread) -> tuple[str, ...]:
    return (
        phase.phase,
        _measured(spread.settled, phase.outrider_settled),
        _measured(spread.whole_phase, phase.outrider_whole_phase),
    )


def _last(phase: OwnPhase, spread: OwnSpread) -> tuple[str, ...]:
    return (number(phase.k_in_use, digits=1), _measured(spread.acceptance, phase.acceptance_rate, digits=2))


def _measured(found: Interval | None, value: float | None, *, digits: int = 0) -> str:
    """As on the page, and narrow enough for a terminal: the wider side of the interval stands for both."""
    if found is None:
        return "-" if value is None else TOO_FEW
    margin = max(found.high - found.value, found.value - found.low)
    return f"{found.value:.{digits}f} ±{margin:.{digits}f}"
