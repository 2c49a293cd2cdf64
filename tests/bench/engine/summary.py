"""The last thing on the screen: ranks, regret and goals."""

from __future__ import annotations

from rich.table import Table

from tests.bench.engine.figures import ArmFigures, Interval
from tests.bench.engine.picture import title
from tests.bench.engine.result import Result


def summary(result: Result) -> tuple[Table, Table]:
    """Arms, the fastest first, and the goals."""
    return _arms(result), _goals(result)


def _arms(result: Result) -> Table:
    table = Table(title="Whole trace; regret to the clairvoyant and loss in %", title_justify="left")
    for heading in ("arm", "tokens/s", "regret", "after 30 s", "worst after 30 s", "worst loss"):
        table.add_column(heading, justify="left" if heading == "arm" else "right")
    best = result.figures.clairvoyant_tokens_per_second
    if best is not None:
        table.add_row("clairvoyant", f"{best:.0f}", "", "", "", "", style="dim")
    for arm in result.figures.arms:
        table.add_row(*_cells(arm), style="bold" if arm.arm == "outrider" else None)
    return table


def _cells(arm: ArmFigures) -> tuple[str, ...]:
    rate = arm.tokens_per_second
    return (
        title(arm.arm),
        f"{rate.value:.0f} [{rate.low:.0f}, {rate.high:.0f}]",
        _percent(arm.regret_whole),
        _percent(arm.regret_settled),
        _percent(arm.worst_regret_settled),
        _percent(arm.worst_loss),
    )


def _percent(found: Interval | None) -> str:
    if found is None:
        return "-"
    return f"{100 * found.value:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def _goals(result: Result) -> Table:
    table = Table(title="Goals", title_justify="left")
    for heading in ("goal", "limit", "value", "reached", "note"):
        table.add_column(heading)
    for goal in result.goals:
        reached = {True: "yes", False: "no", None: "cannot tell"}[goal.reached]
        value = "-" if goal.value is None else f"{goal.value:.3g}"
        table.add_row(goal.words, f"{goal.limit:g}", value, reached, goal.note)
    return table
