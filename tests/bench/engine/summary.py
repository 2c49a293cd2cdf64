"""The last thing on the screen: ranks, regret and goals."""

from __future__ import annotations

from rich.table import Table

from tests.bench.engine.figures import ArmFigures, Interval
from tests.bench.engine.picture import title
from tests.bench.engine.plan import OUTRIDER
from tests.bench.engine.prediction import apart
from tests.bench.engine.result import Result

HEADINGS = (
    "arm",
    "tokens/s",
    "predicted",
    "regret",
    "predicted regret",
    "after 30 s",
    "predicted after 30 s",
    "loss",
    "worst loss",
    "reaction, s",
)


def summary(result: Result) -> tuple[Table, ...]:
    """Arms, the fastest first, and the goals; for stand-ins the simulator's predictions besides."""
    beside = (_beside(result),) if result.predictions else ()
    return (_arms(result), *beside, _goals(result))


def rows(result: Result) -> list[tuple[str, ...]]:
    """Measured figures of stand-ins beside predictions, in %; the fastest arm first. Cells of `HEADINGS`.

    An exclamation mark is at a prediction that is more than a point away.
    """
    known = {one.arm: one for one in result.predictions}
    found: list[tuple[str, ...]] = []
    for arm in result.figures.arms:
        predicted = known.get(arm.arm)
        if predicted is None:
            continue
        far = apart(arm, predicted)
        found.append(
            (
                title(arm.arm),
                rate_range(arm.tokens_per_second),
                f"{predicted.tokens_per_second:.0f} ({100 * far.tokens_per_second:+.1f} %)"
                + far.mark("tokens_per_second"),
                _percent(arm.regret_whole),
                f"{100 * predicted.regret_whole:.1f}" + far.mark("regret_whole"),
                _percent(arm.regret_settled),
                "-"
                if predicted.regret_settled is None
                else f"{100 * predicted.regret_settled:.1f}" + far.mark("regret_settled"),
                _percent(arm.loss),
                _percent(arm.worst_loss),
                _reaction(result, arm.arm),
            )
        )
    return found


def markdown(result: Result) -> str:
    """The same as a table for the documentation, and what else a reader asks for."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *rows(result)]
    told = [f"- {goal.words}: {_value(goal.value)}. {goal.note}".rstrip() for goal in result.goals]
    told += [f"- {_probes(result)}"] if result.probe_shares else []
    return "\n".join(["| " + " | ".join(line) + " |" for line in lines] + ["", *told]) + "\n"


def _probes(result: Result) -> str:
    """Of each repeat, and as predicted."""
    shares = ", ".join(f"{100 * share:.1f}" for share in result.probe_shares)
    predicted = next((one.probe_share for one in result.predictions if one.arm == OUTRIDER), None)
    beside = (
        "" if predicted is None else f"; predicted with another K than the table's: {100 * predicted:.1f}"
    )
    return f"time in probes, in %: {shares}{beside}"


def _beside(result: Result) -> Table:
    table = Table(
        title="Measured, and predicted by the simulator, in %; ! where they are more than 1 point apart",
        title_justify="left",
        caption=_probes(result) if result.probe_shares else None,
        caption_justify="left",
    )
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "arm" else "right")
    for row in rows(result):
        table.add_row(*row)
    return table


def _reaction(result: Result, arm: str) -> str:
    """Mean and longest seconds of the steps that wanted another table."""
    wanted = [one for one in result.reactions if one.policy == arm and one.wanted]
    known = [one.seconds for one in wanted if one.seconds is not None]
    if not wanted:
        return "-"
    missed = f", {len(wanted) - len(known)} never" if len(known) < len(wanted) else ""
    return (f"{sum(known) / len(known):.0f}, at most {max(known):.0f}" if known else "") + missed


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _arms(result: Result) -> Table:
    table = Table(title="Whole trace; regret to the oracle policy and loss in %", title_justify="left")
    for heading in ("arm", "tokens/s", "regret", "after 30 s", "worst after 30 s", "worst loss"):
        table.add_column(heading, justify="left" if heading == "arm" else "right")
    best = result.figures.clairvoyant_tokens_per_second
    if best is not None:
        table.add_row("oracle policy", f"{best:.0f}", "", "", "", "", style="dim")
    for arm in result.figures.arms:
        table.add_row(*_cells(arm), style="bold" if arm.arm == "outrider" else None)
    return table


def _cells(arm: ArmFigures) -> tuple[str, ...]:
    return (
        title(arm.arm),
        rate_range(arm.tokens_per_second),
        _percent(arm.regret_whole),
        _percent(arm.regret_settled),
        _percent(arm.worst_regret_settled),
        _percent(arm.worst_loss),
    )


def rate_range(rate: Interval) -> str:
    """A cell with tokens per second and their interval, such as `298 [290, 305]`."""
    return f"{rate.value:.0f} [{rate.low:.0f}, {rate.high:.0f}]"


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
        table.add_row(goal.words, f"{goal.limit:g}", _value(goal.value), reached, goal.note)
    return table
