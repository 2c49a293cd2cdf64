"""Tokens per second by streams and K, as the table that ``outrider simulate`` reads."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from pydantic import JsonValue

from outrider.bench.result import with_interval
from outrider.bench.verdict import mean_amount, ratio
from outrider_protocol.schedule import Row, Schedule

_COLUMNS = 3
"""Values of K that fit into 80 columns."""
_WIDTH = 22
_MAX_LOST = 0.2
"""Ratio of throughput that a proposed K may lose to another one; beyond it no schedule is proposed."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of streams with one K."""

    streams: int
    k: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """The result of a sweep. rates: tokens per second of all streams, by round."""

    namespace: str
    name: str
    seconds: float  # of a measurement
    rates: Mapping[Cell, Sequence[float]]
    simulated: str | None = None  # the hardware that engines simulate

    @property
    def streams(self) -> list[int]:
        """Numbers of streams, rising."""
        return sorted({cell.streams for cell in self.rates})

    @property
    def ks(self) -> list[int]:
        """Values of K, rising."""
        return sorted({cell.k for cell in self.rates})

    @property
    def rounds(self) -> int:
        """Measurements of each cell."""
        return len(next(iter(self.rates.values())))

    def best(self, streams: int) -> int | None:
        """The smallest K that is not clearly slower than the fastest one, since drafts cost memory.

        None: the intervals are so wide that this K may lose much to another one.
        """
        rates = {k: self.rates[Cell(streams, k)] for k in self.ks}
        fastest = max(self.ks, key=lambda k: statistics.fmean(rates[k]))
        best = next(k for k in self.ks if k == fastest or ratio(rates[k], rates[fastest]).high >= 1)
        most_lost = 1 - min(ratio(rates[best], rates[k]).low for k in self.ks)
        return best if most_lost <= _MAX_LOST else None

    @property
    def unclear(self) -> list[int]:
        """Numbers of streams for which the best K is not clear, rising."""
        return [streams for streams in self.streams if self.best(streams) is None]


def proposed(sweep: Sweep) -> Schedule | None:
    """A static schedule: the best K up to each number of streams; above the largest one, its best K.

    None: for some number of streams the best K is not clear.
    """
    bests = [(streams, sweep.best(streams)) for streams in sweep.streams]
    found = [(streams, k) for streams, k in bests if k is not None]
    if len(found) < len(bests):
        return None
    *lower, (_, last) = found
    rows = (*(Row(streams, k) for streams, k in lower), Row(None, last))
    return Schedule(rows).merged()


def text_of(sweep: Sweep) -> Iterator[str]:
    """Lines for people."""
    yield f"{sweep.namespace}/{sweep.name}, {sweep.rounds} measurements of {sweep.seconds:g} s each"
    if sweep.simulated is not None:
        yield f"simulated: engines compute nothing and sleep the step times of {sweep.simulated}"
    yield "tokens per second, 95 % in brackets"
    for first in range(0, len(sweep.ks), _COLUMNS):
        ks = sweep.ks[first : first + _COLUMNS]
        yield "streams" + "".join(f"{f'K={k}':>{_WIDTH}}" for k in ks)
        for streams in sweep.streams:
            found = (mean_amount(sweep.rates[Cell(streams, k)]) for k in ks)
            yield f"{streams:>7}" + "".join(f"{with_interval(each, 0):>{_WIDTH}}" for each in found)
    table = proposed(sweep)
    if table is None:
        numbers = ", ".join(map(str, sweep.unclear))
        yield f"The best K with {numbers} streams is not clear, so no schedule is proposed:"
        yield "run more --rounds or longer --seconds"
    else:
        yield f"A static schedule: {table.in_ranges()} (batch size: K)"


def json_of(sweep: Sweep) -> dict[str, JsonValue]:
    """A file for ``outrider simulate``, with intervals and the proposed schedule, which may be null."""
    rates: list[JsonValue] = [
        [statistics.fmean(sweep.rates[Cell(streams, k)]) for k in sweep.ks] for streams in sweep.streams
    ]
    intervals: list[JsonValue] = [
        {"streams": cell.streams, "k": cell.k, **asdict(mean_amount(values))}
        for cell, values in sweep.rates.items()
    ]
    runs = f"{sweep.rounds} measurements of {sweep.seconds:g} s"
    source = f"outrider sweep of {sweep.namespace}/{sweep.name}, {runs}"
    if sweep.simulated is not None:
        source += f", simulated by {sweep.simulated}"
    table: dict[str, JsonValue] = {
        "name": sweep.name,
        "source": source,
        "batch_sizes": list(sweep.streams),
        "num_speculative_tokens": list(sweep.ks),
        "tokens_per_second": rates,
    }
    found = proposed(sweep)
    schedule: list[JsonValue] | None = None if found is None else [dict(row) for row in found.to_wire()]
    return {
        "tables": [table],
        "intervals": intervals,
        "schedule": schedule,
        "simulated": sweep.simulated,
    }
