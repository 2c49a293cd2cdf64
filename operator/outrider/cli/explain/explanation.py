"""What ``outrider explain`` shows: status and estimates of one model as tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime

from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from outrider.api.conditions import ConditionType, Manager, conditions_owned_by
from outrider.api.resource import SpeculativeModel
from outrider.api.status import DecisionRecord, SpeculationStatus, Status
from outrider.cli.common.output import (
    acceptance_of,
    age,
    change_of,
    interval_of,
    reason_of,
    schedule_of,
)
from outrider.cli.explain.untuned import why_untuned
from outrider.plan import settled
from outrider.tuning.decision import BinEstimates, Estimate
from outrider_protocol.schedule import Schedule

_SHOWN = (
    *conditions_owned_by(Manager.TUNER),
    ConditionType.DEGRADED,
    ConditionType.KNOWN_ISSUES,
)


def explanation(
    model: SpeculativeModel, estimates: Mapping[str, BinEstimates], *, now: datetime
) -> RenderableType:
    """Everything that says why the schedule is what it is. estimates: by label of the batch bin."""
    return Group(*_parts(model, estimates, now))


def _parts(
    model: SpeculativeModel, estimates: Mapping[str, BinEstimates], now: datetime
) -> Iterator[RenderableType]:
    status, metadata = model.status, model.metadata
    mode = settled(model).spec.tuning_mode
    yield Text(f"{metadata.namespace}/{metadata.name}, tuning {mode}", style="bold")
    if status.speculation is None:
        yield Text(why_untuned(model) or "The operator has not reported on its speculation yet.")
    else:
        yield from (Text(line) for line in _headlines(status.speculation, now))
    if status.slo is not None:
        yield Text(f"latency targets: {status.slo.summary}")
    yield from _conditions(status)
    yield Text("")
    if status.decisions:
        yield from _decisions(status.decisions, now)
    else:
        yield Text("No decision has changed the schedule yet.")
    yield Text("")
    if estimates:
        yield _estimates(estimates, _table(status.speculation))
        yield Text("tok/s of engine time ± standard error; * in force, bold: highest")
    else:
        yield Text("No estimates yet: the tuner has stored no measurements of this model.")


def _headlines(speculation: SpeculationStatus, now: datetime) -> Iterator[str]:
    yield f"schedule {schedule_of(speculation)}, {speculation.state}"
    if speculation.simulated is not None:
        yield f"simulated: engines compute nothing and sleep the step times of {speculation.simulated}"
    if speculation.cuda_graphs == "PIECEWISE":
        yield "CUDA graphs are piecewise, which costs speed; to change it, set engine.modelRunner: V1"
    if speculation.step_time_profile is not None:
        yield f"step-time profile: {speculation.step_time_profile}"
    if speculation.fast_loop is not None:
        yield f"fast loop: {speculation.fast_loop}; the schedule holds if it stops"
    speedup = speculation.speedup
    if speedup is not None:
        against = f"measured against {speedup.reference}, {age(speedup.measured_at, now)} ago"
        yield f"speedup {speedup.ratio:.2f} x no drafter{interval_of(speedup)}, {against}"
    if speculation.acceptance_rate is not None:
        yield f"acceptance {acceptance_of(speculation)}"


def _conditions(status: Status) -> Iterator[Text]:
    for kind in _SHOWN:
        found = status.condition(kind)
        if found is not None:
            yield Text(f"{kind} {found.status}, {found.reason}: {found.message}")


def _decisions(records: list[DecisionRecord], now: datetime) -> Iterator[Text]:
    """Each with its reason on a line of its own, which a narrow terminal wraps and does not squeeze."""
    yield Text("Last decisions", style="italic")
    for record in records:
        gains = (("expected", record.expected_gain), ("measured", record.measured_gain))
        of_gain = "".join(f", {word} {_gain(ratio)}" for word, ratio in gains if ratio is not None)
        yield Text(f"{age(record.time, now)} ago: {change_of(record)}{of_gain}")
        yield Text(f"  {reason_of(record)}")


def _estimates(estimates: Mapping[str, BinEstimates], in_force: Schedule | None) -> Table:
    bins = sorted(estimates.values(), key=lambda found: found.low)
    measured = sorted({row.num_speculative_tokens for found in bins for row in found.estimates})
    table = Table("batch", title="Estimates", title_justify="left")
    for k in measured:
        table.add_column(f"K={k}", justify="right")
    table.add_column("state")
    for found in bins:
        rows = {row.num_speculative_tokens: row for row in found.estimates}
        best = max(found.estimates, key=lambda row: row.goodput, default=None)
        ruling = in_force.k_at_mean(found.batch_size) if in_force is not None else None
        cells = (_cell(rows.get(k), best=best, ruling=ruling) for k in measured)
        table.add_row(found.label, *cells, "settled" if found.settled else "calibrating")
    return table


def _cell(row: Estimate | None, *, best: Estimate | None, ruling: int | None) -> Text:
    if row is None:
        return Text("")
    mark = "*" if row.num_speculative_tokens == ruling else ""
    return Text(f"{row.goodput:.0f} ± {row.standard_error:.0f}{mark}", style="bold" if row is best else "")


def _table(speculation: SpeculationStatus | None) -> Schedule | None:
    if speculation is None or not speculation.schedule_summary:
        return None
    try:
        return Schedule.parse(speculation.schedule_summary)
    except ValueError:
        return None


def _gain(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f} %"


def json_of(model: SpeculativeModel, estimates: Mapping[str, BinEstimates]) -> dict[str, JsonValue]:
    """The same for programs: status as the API server keeps it, goodput in tokens per second."""
    status: JsonValue = model.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        "namespace": model.metadata.namespace,
        "name": model.metadata.name,
        "tuning": settled(model).spec.tuning_mode,
        "status": status,
        "estimates": [asdict(found) for found in sorted(estimates.values(), key=lambda found: found.low)],
    }
