"""Tokens per second over streams and K, as the table that ``outrider simulate`` reads."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from pydantic import JsonValue

from outrider.api.schedule import Row, Schedule
from outrider.bench.verdict import Interval, mean, ratio

_COLUMNS = 5
"""That fit 80 characters."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of streams with one K."""

    streams: int
    k: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """What was measured. rates: tokens per second of all streams, by round."""

    namespace: str
    name: str
    seconds: float  # of a slice
    rates: Mapping[Cell, Sequence[float]]

    @property
    def streams(self) -> list[int]:
        """Rising."""
        return sorted({cell.streams for cell in self.rates})

    @property
    def ks(self) -> list[int]:
        """Rising."""
        return sorted({cell.k for cell in self.rates})

    @property
    def rounds(self) -> int:
        """Slices of each cell."""
        return len(next(iter(self.rates.values())))

    def best(self, streams: int) -> int:
        """The smallest K that is not worse than the fastest one beyond the interval: drafts cost memory."""
        fastest = max(self.ks, key=lambda k: statistics.fmean(self.rates[Cell(streams, k)]))
        top = self.rates[Cell(streams, fastest)]
        return next(k for k in self.ks if ratio(self.rates[Cell(streams, k)], top).high >= 1 or k == fastest)


def proposed(sweep: Sweep) -> Schedule:
    """A static table: the best K up to each number of streams; above the largest one, what is best there."""
    *lower, last = sweep.streams
    rows = (*(Row(each, sweep.best(each)) for each in lower), Row(None, sweep.best(last)))
    return Schedule(rows).merged()


def text_of(sweep: Sweep) -> Iterator[str]:
    """Lines for people."""
    yield f"{sweep.namespace}/{sweep.name}, {sweep.rounds} slices of {sweep.seconds:g} s each"
    yield "tokens per second ± half the 95 % interval"
    for first in range(0, len(sweep.ks), _COLUMNS):
        ks = sweep.ks[first : first + _COLUMNS]
        yield "streams" + "".join(f"{f'K={k}':>14}" for k in ks)
        for streams in sweep.streams:
            found = (mean(sweep.rates[Cell(streams, k)]) for k in ks)
            yield f"{streams:>7}" + "".join(f"{_told(each):>14}" for each in found)
    yield f"A static table for it: {proposed(sweep)} (batch size up to : K)"


def _told(found: Interval) -> str:
    return f"{found.value:.0f} ± {found.value - found.low:.0f}"


def json_of(sweep: Sweep) -> dict[str, JsonValue]:
    """A file for ``outrider simulate``, with the intervals and the proposal beside its table."""
    rates: list[JsonValue] = [
        [statistics.fmean(sweep.rates[Cell(streams, k)]) for k in sweep.ks] for streams in sweep.streams
    ]
    intervals: list[JsonValue] = [
        {"streams": cell.streams, "k": cell.k, **asdict(mean(values))} for cell, values in sweep.rates.items()
    ]
    source = f"outrider sweep of {sweep.namespace}/{sweep.name}, {sweep.rounds} slices of {sweep.seconds:g} s"
    table: dict[str, JsonValue] = {
        "name": sweep.name,
        "source": source,
        "batch_sizes": list(sweep.streams),
        "num_speculative_tokens": list(sweep.ks),
        "tokens_per_second": rates,
    }
    schedule: list[JsonValue] = [dict(row) for row in proposed(sweep).to_wire()]
    return {"tables": [table], "intervals": intervals, "schedule": schedule}
