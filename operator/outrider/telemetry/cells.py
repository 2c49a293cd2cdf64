"""Differences of counters, and cells from those of the plugin: exact sums per batch bin and K."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from operator import add

from outrider.runtimes.metrics import MIXED, CellCounter, CellSeries, Counter, MetricsDialect
from outrider.telemetry.series import PodSeries, Sample
from outrider.tuning.bounded_types import MAX_COUNT
from outrider.tuning.observe.window import Cell, GapReason

_SLACK = 0.2  # relative; both counters agree to the token, but are read one after the other
_SLACK_STEPS = 5.0  # engine steps between the two reads, or in progress when requests are aborted


class NoWindow(Exception):
    """There is no usable measurement; reason and detail say why."""

    def __init__(self, reason: GapReason, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


def delta(name: str, values: Sequence[float]) -> float:
    """Return the increase from the first to the last value of a counter.

    Raises:
        NoWindow: the counter decreased, or has a value that no counter can have.
    """
    if not all(value <= MAX_COUNT for value in values) or values[0] < 0:
        raise NoWindow(GapReason.CONTRADICTORY, f"{name} is negative, or too large for a counter")
    if any(after < before for before, after in pairwise(values)):
        raise NoWindow(GapReason.COUNTER_RESET, f"{name} went backwards")
    return values[-1] - values[0]


Deltas = Mapping[CellSeries, float]
"""Counter -> its increase, for counters that increased."""


def plugin_times(series: PodSeries, dialect: MetricsDialect) -> set[float] | None:
    """Return the times of scrapes with the plugin's metrics; None for an engine without the plugin."""
    own = (key for key in series if isinstance(key, CellSeries) or key == dialect.plugin)
    return {sample.at for key in own for sample in series[key]} or None


def cell_deltas(series: PodSeries, times: Sequence[float]) -> Deltas:
    """Return increases between the first and last of these scrapes, which all have the plugin's metrics.

    A counter appears with its first step; before that its value is 0.

    Raises:
        NoWindow: a counter decreased or vanished.
    """
    moved = {}
    for key, samples in series.items():
        if isinstance(key, CellSeries) and not _stands_still(samples, times[0]):
            change = delta(_spelled(key), _values(key, samples, times))
            if change > 0:
                moved[key] = change
    return moved


def cells_of(deltas: Deltas, dialect: MetricsDialect) -> tuple[Cell, ...]:
    """Return one cell per batch bin and K with at least one step, without steps of mixed K."""
    steps = dialect.cells.get(CellCounter.STEPS)
    ran = sorted({(key.low, key.k) for key in deltas if key.name == steps and key.k is not None})
    return tuple(_cell(deltas, low, k, dialect) for low, k in ran)


def check_totals(deltas: Deltas, totals: Mapping[Counter, float], dialect: MetricsDialect) -> None:
    """Check that the plugin's counters agree with the engine's. totals: increases of the engine's own.

    A plugin without any counts has its counting off; then only the engine's counters remain.

    Raises:
        NoWindow: the difference is larger than the time between the two reads explains.
    """
    names = dialect.cells
    steps = max(1.0, _total(deltas, [names[CellCounter.STEPS]]))
    engine_steps = max(1.0, totals[Counter.ENGINE_STEPS])
    for cell_counters, counter in (
        ((CellCounter.EMITTED,), Counter.GENERATED_TOKENS),
        (
            (CellCounter.VERIFIED, CellCounter.TRIMMED, CellCounter.LIMITED_VERIFIED),
            Counter.DRAFT_TOKENS,
        ),
        ((CellCounter.ACCEPTED, CellCounter.LIMITED_ACCEPTED), Counter.ACCEPTED_TOKENS),
    ):
        own_names = [names[one] for one in cell_counters if one in names]
        own, total = _total(deltas, own_names), totals.get(counter, 0.0)
        most = _most_in_a_step(deltas, own_names, names[CellCounter.STEPS])
        per_step = max(own / steps, total / engine_steps, most)
        if abs(own - total) > _SLACK * max(own, total) + _SLACK_STEPS * per_step:
            ours, theirs = " and ".join(own_names), f"the engine {total:.0f} in {dialect.named(counter)}"
            raise NoWindow(GapReason.CONTRADICTORY, f"the plugin counted {own:.0f} in {ours}, {theirs}")


def _stands_still(samples: Sequence[Sample], since: float) -> bool:
    return not samples or (samples[0].at <= since and samples[0].value == samples[-1].value)


def _values(key: CellSeries, samples: Sequence[Sample], times: Sequence[float]) -> list[float]:
    known = dict(samples)
    begin = samples[0].at
    missing = next((at for at in times if at >= begin and at not in known), None)
    if missing is not None:
        raise NoWindow(
            GapReason.CONTRADICTORY, f"{_spelled(key)} is missing in a scrape that has other counters"
        )
    return [known.get(at, 0.0) for at in times]


def _cell(deltas: Deltas, low: int, k: int, dialect: MetricsDialect) -> Cell:
    def moved(counter: CellCounter, position: int | None = None) -> float:
        name = dialect.cells.get(counter)
        return 0.0 if name is None else deltas.get(CellSeries(name, low, k, position), 0.0)

    trimmed = tuple(moved(CellCounter.TRIMMED, position) for position in range(k))
    verified = tuple(moved(CellCounter.VERIFIED, position) for position in range(k))
    return Cell(
        low=low,
        num_speculative_tokens=k,
        steps=moved(CellCounter.STEPS),
        step_seconds=moved(CellCounter.SECONDS),
        requests=moved(CellCounter.REQUESTS),
        emitted_tokens=moved(CellCounter.EMITTED),
        drafted_per_position=tuple(map(add, verified, trimmed)),
        trimmed_per_position=trimmed,
        accepted_per_position=tuple(moved(CellCounter.ACCEPTED, position) for position in range(k)),
        prefill_tokens=moved(CellCounter.PREFILL),
        context_tokens=moved(CellCounter.CONTEXT),
        limited_per_position=_limited(deltas, low, k, dialect),
        limited_accepted=sum(moved(CellCounter.LIMITED_ACCEPTED, position) for position in range(k)),
    )


def _limited(deltas: Deltas, low: int, k: int, dialect: MetricsDialect) -> tuple[float, ...]:
    """Positions beyond K have limits, too, so the schedule does not hide them."""
    name = dialect.cells.get(CellCounter.LIMITED)
    found = {key.position: change for key, change in deltas.items() if key[:3] == (name, low, k)}
    last = max((position for position in found if position is not None), default=-1)
    return tuple(found.get(position, 0.0) for position in range(last + 1))


def _most_in_a_step(deltas: Deltas, names: Collection[str], steps: str) -> float:
    """Return the maximum per step of any cell.

    If few steps draft, one that drafts has many more tokens than the mean.
    """
    of_cells: dict[tuple[int, int | None], float] = {}
    for key, change in deltas.items():
        if key.name in names:
            of_cells[key.low, key.k] = of_cells.get((key.low, key.k), 0.0) + change
    return max(
        (
            change / max(1.0, deltas.get(CellSeries(steps, low, k), 0.0))
            for (low, k), change in of_cells.items()
        ),
        default=0.0,
    )


def _total(deltas: Deltas, names: Collection[str]) -> float:
    return sum(change for key, change in deltas.items() if key.name in names)


def _spelled(key: CellSeries) -> str:
    k = MIXED if key.k is None else key.k
    position = "" if key.position is None else f',position="{key.position}"'
    return f'{key.name}{{batch from {key.low},k="{k}"{position}}}'
