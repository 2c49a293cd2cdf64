"""Raw samples of one pod's metrics, as a source delivers them."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from outrider.api.drafting import MAX_K
from outrider.telemetry import names
from outrider.tuning.limits import LARGEST_BATCH

MOST_SERIES = 10_000
"""Series of one pod that are read. An engine that was in all of 9 batch bins has about 630."""

MOST_SAMPLES = 200_000
"""Samples of one pod that are read at a time: 630 series over 50 s, scraped every second, are 31,500."""


class PodKey(NamedTuple):
    """One pod of the cluster."""

    namespace: str
    pod: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod}"


class Sample(NamedTuple):
    """One scraped value."""

    at: float  # unix seconds, on the source's clock
    value: float  # finite


class CellSeries(NamedTuple):
    """One counter of the plugin for one batch bin and K."""

    name: str
    low: int  # smallest batch of the bin
    k: int | None  # None: steps that verified another K than they drafted
    position: int | None = None  # of the draft, counted from 0; None where the counter has none


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A source has something about a pod, and it is of no use."""

    detail: str  # plain, for a sentence that begins with the pod


class LabelError(ValueError):
    """Labels that no engine writes: no numbers, or far beyond any K and batch."""


SeriesKey = str | CellSeries

PodSeries = Mapping[SeriesKey, tuple[Sample, ...]]
"""Metric -> samples in rising order of time.

vLLM's own go by their name, with a `position` label by ``name{position}``.
Several engines in one pod are summed (gauges of a ratio: the largest).
"""

PodMetrics = PodSeries | Unreadable


class PackedSeries(PodSeries):
    """Samples side by side as plain numbers, since a fleet has some hundred thousand rows of them.

    A row takes about 200 bytes in place of 1 KiB. Rows of the same scrapes share their times.
    """

    __slots__ = ("_rows",)

    def __init__(self, series: Iterable[tuple[SeriesKey, Sequence[Sample]]]) -> None:
        times: dict[bytes, bytes] = {}
        self._rows: dict[SeriesKey, tuple[bytes, bytes]] = {}
        for key, samples in series:
            at = _packed(sample.at for sample in samples)
            self._rows[key] = times.setdefault(at, at), _packed(sample.value for sample in samples)

    def __getitem__(self, key: SeriesKey) -> tuple[Sample, ...]:
        return tuple(map(Sample, *(array("d", numbers) for numbers in self._rows[key])))

    def __iter__(self) -> Iterator[SeriesKey]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows


def _packed(numbers: Iterable[float]) -> bytes:
    return array("d", numbers).tobytes()


Samples = dict[float, float]
"""Value by time."""

_ENGINE_WIDE = frozenset({names.KV_USAGE, names.PLUGIN_EPOCH})
_OF_CELLS = frozenset({*names.CELL_SUMS, *names.CELL_POSITIONS})


def series_key(name: str, labels: Mapping[str, str]) -> SeriesKey | None:
    """Where a series belongs; None for one that is not used.

    Raises:
        LabelError: the labels of a series that is used are wrong.
    """
    if labels.get("source", names.LOCAL_COMPUTE) != names.LOCAL_COMPUTE:
        return None
    if name in _OF_CELLS:
        return _cell_series(name, labels)
    if name == names.ACCEPTED_PER_POSITION:
        return names.per_position(_position(labels))
    return intern(name)


def pod_series(rows: Iterable[tuple[SeriesKey, Samples]]) -> PodSeries:
    """One pod's rows by key; rows of several engines are added.

    Cells that stood still are left out: most of a pod's are, and they say nothing.
    """
    parts: defaultdict[SeriesKey, list[Samples]] = defaultdict(list)
    for key, samples in rows:
        parts[key].append(samples)
    scrapes = max((len(samples) for engines in parts.values() for samples in engines), default=0)
    return PackedSeries(
        (key, _combined(key, engines))
        for key, engines in parts.items()
        if not (isinstance(key, CellSeries) and _stood_still(engines, scrapes))
    )


def _stood_still(engines: Sequence[Samples], scrapes: int) -> bool:
    return all(len(samples) == scrapes and len(set(samples.values())) == 1 for samples in engines)


def _cell_series(name: str, labels: Mapping[str, str]) -> CellSeries:
    batch, k = labels.get("batch", ""), labels.get("k", "")
    if ("position" in labels) != (name in names.CELL_POSITIONS):
        raise LabelError("a position where there is none, or none where there is one")
    return _shared(
        name,
        _number("batch", batch.removesuffix("+").partition("-")[0], LARGEST_BATCH),
        None if k == names.MIXED else _number("k", k, MAX_K),
        _position(labels) if name in names.CELL_POSITIONS else None,
    )


@lru_cache(maxsize=4096)
def _shared(name: str, low: int, k: int | None, position: int | None) -> CellSeries:
    """One key for all pods: engines of a fleet have the same few hundred."""
    return CellSeries(name, low, k, position)


def _position(labels: Mapping[str, str]) -> int:
    return _number("position", labels.get("position", ""), MAX_K - 1)


def _number(label: str, text: str, largest: int) -> int:
    # Only ASCII digits: others pass `isdigit`, and not all of them `int`.
    if text.isascii() and text.isdigit() and len(text) <= len(str(largest)) and int(text) <= largest:
        return int(text)
    raise LabelError(f"{label}={text[:20]!a} is no number up to {largest}")


def _combined(key: SeriesKey, engines: Sequence[Samples]) -> tuple[Sample, ...]:
    if len(engines) == 1:
        return tuple(Sample(at, value) for at, value in sorted(engines[0].items()))
    combine = max if key in _ENGINE_WIDE else sum
    if isinstance(key, CellSeries):
        times = _times_since_the_first(engines)
    else:
        times = sorted(set(engines[0]).intersection(*engines[1:]))
    return tuple(Sample(at, float(combine([samples.get(at, 0.0) for samples in engines]))) for at in times)


def _times_since_the_first(engines: Sequence[Samples]) -> list[float]:
    """A plugin's counter does not exist before its first step, which means 0."""
    begins = [min(samples, default=0.0) for samples in engines]
    return sorted(
        at
        for at in set().union(*engines)
        if all(at in samples or at < begin for samples, begin in zip(engines, begins, strict=True))
    )
