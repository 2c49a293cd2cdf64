"""Cells from the plugin's counters: exact sums per batch bin and K."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from outrider.telemetry import names
from outrider.telemetry.deltas import NoWindow, delta
from outrider.telemetry.series import CellSeries, PodSeries, Sample
from outrider.tuning.observe.window import Cell, GapReason

_SLACK = 0.2  # relative; both counters agree to the token, but are read one after the other
_SLACK_STEPS = 5.0  # engine steps between the two reads, or in progress when requests are aborted

Deltas = Mapping[CellSeries, float]
"""Counter -> its increase, for counters that increased."""


def plugin_times(series: PodSeries) -> set[float] | None:
    """Return the times of scrapes with the plugin's metrics; None for an engine without the plugin."""
    own = (key for key in series if isinstance(key, CellSeries) or key == names.PLUGIN_EPOCH)
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


def cells_of(deltas: Deltas) -> tuple[Cell, ...]:
    """Return one cell per batch bin and K with at least one step, without steps of mixed K."""
    ran = sorted({(key.low, key.k) for key in deltas if key.name == names.CELL_STEPS and key.k is not None})
    return tuple(_cell(deltas, low, k) for low, k in ran)


def check_totals(deltas: Deltas, totals: Mapping[str, float]) -> None:
    """Check that the plugin's counters agree with vLLM's. totals: increases of vLLM's own counters.

    A plugin without any counts has its counting off; then only vLLM's counters remain.

    Raises:
        NoWindow: the difference is larger than the time between the two reads explains.
    """
    steps = max(1.0, _total(deltas, names.CELL_STEPS))
    vllm_steps = max(1.0, totals[names.ENGINE_STEPS])
    for own_name, name in (
        (names.CELL_EMITTED, names.GENERATED_TOKENS),
        (names.CELL_DRAFTED, names.DRAFT_TOKENS),
        (names.CELL_ACCEPTED, names.ACCEPTED_TOKENS),
    ):
        own, total = _total(deltas, own_name), totals.get(name, 0.0)
        per_step = max(own / steps, total / vllm_steps, _most_in_a_step(deltas, own_name))
        if abs(own - total) > _SLACK * max(own, total) + _SLACK_STEPS * per_step:
            raise NoWindow(
                GapReason.CONTRADICTORY,
                f"the plugin counted {own:.0f} in {own_name}, vLLM {total:.0f} in {name}",
            )


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


def _cell(deltas: Deltas, low: int, k: int) -> Cell:
    def moved(name: str, position: int | None = None) -> float:
        return deltas.get(CellSeries(name, low, k, position), 0.0)

    return Cell(
        low=low,
        num_speculative_tokens=k,
        steps=moved(names.CELL_STEPS),
        step_seconds=moved(names.CELL_SECONDS),
        requests=moved(names.CELL_REQUESTS),
        emitted_tokens=moved(names.CELL_EMITTED),
        drafted_per_position=tuple(moved(names.CELL_DRAFTED, position) for position in range(k)),
        accepted_per_position=tuple(moved(names.CELL_ACCEPTED, position) for position in range(k)),
        prefill_tokens=moved(names.CELL_PREFILL),
        context_tokens=moved(names.CELL_CONTEXT),
    )


def _most_in_a_step(deltas: Deltas, name: str) -> float:
    """Return the maximum per step of any cell.

    If few steps draft, one that drafts has many more tokens than the mean.
    """
    of_cells: dict[tuple[int, int | None], float] = {}
    for key, change in deltas.items():
        if key.name == name:
            of_cells[key.low, key.k] = of_cells.get((key.low, key.k), 0.0) + change
    return max(
        (
            change / max(1.0, deltas.get(CellSeries(names.CELL_STEPS, low, k), 0.0))
            for (low, k), change in of_cells.items()
        ),
        default=0.0,
    )


def _total(deltas: Deltas, name: str) -> float:
    return sum(change for key, change in deltas.items() if key.name == name)


def _spelled(key: CellSeries) -> str:
    k = names.MIXED if key.k is None else key.k
    position = "" if key.position is None else f',position="{key.position}"'
    return f'{key.name}{{batch from {key.low},k="{k}"{position}}}'
