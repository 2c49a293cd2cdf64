"""Raw samples of one pod's metrics, as a source returns them."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from outrider.api.drafting import MAX_K
from outrider.runtimes import dialects
from outrider.runtimes.metrics import MIXED, CellSeries
from outrider.tuning.bounded_types import MAX_BATCH

MAX_SERIES = 10_000
"""Limit of series of one pod. An engine that has used all 9 batch bins has about 630."""

MAX_SAMPLES = 200_000
"""Limit of samples of one pod in one answer. 630 series over 50 s, scraped every second, have 31,500."""


_EDGE = r"[0-9]{1,12}([.][0-9]{1,12})?(e[-+]?[0-9]{1,2})?"


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


class BucketSeries(NamedTuple):
    """One cumulative counter of a histogram."""

    name: str
    edge: float  # inclusive, in seconds; inf for all


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A pod whose metrics a source has, but cannot use."""

    detail: str  # a clause for a sentence that begins with the pod


class LabelError(ValueError):
    """Labels that no engine writes: not numbers, or far above any K and batch size."""


SeriesKey = str | CellSeries | BucketSeries

PodSeries = Mapping[SeriesKey, tuple[Sample, ...]]
"""Metric -> samples in rising order of time.

A metric of the engine has its own name as key, and with a `position` label ``name{position}``. Values of
several engines in one pod are added; for gauges of a ratio the maximum counts.
"""

PodMetrics = PodSeries | Unreadable


class PackedSeries(PodSeries):
    """Samples as arrays of numbers, because a fleet has hundreds of thousands of rows.

    A row takes about 200 bytes instead of 1 KiB. Rows of the same scrapes share their times.
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
"""Time -> value."""


def series_key(name: str, labels: Mapping[str, str]) -> SeriesKey | None:
    """Return the key of a series; None for one that Outrider does not use.

    Raises:
        LabelError: the labels of a used series are wrong.
    """
    used = dialects()
    dialect = used.of(name)
    if dialect is None:
        return None
    if name in used.has_position:
        return _cell_series(name, labels, has_position=used.has_position[name])
    if name in used.histograms:
        return _bucket(name, labels.get("le", ""))
    if any(labels.get(label, value) != value for label, value in dialect.only.items()):
        return None
    if name == dialect.per_position:
        return dialect.at_position(_position(labels))
    return intern(name)


def pod_series(rows: Iterable[tuple[SeriesKey, Samples]]) -> PodSeries:
    """Return one pod's rows by key, with rows of several engines added.

    It drops cells without a change, which most cells are.
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


def _cell_series(name: str, labels: Mapping[str, str], *, has_position: bool) -> CellSeries:
    batch, k = labels.get("batch", ""), labels.get("k", "")
    if ("position" in labels) != has_position:
        raise LabelError("a label position that is missing or must not exist")
    return _shared(
        name,
        _number("batch", batch.removesuffix("+").partition("-")[0], MAX_BATCH),
        None if k == MIXED else _number("k", k, MAX_K),
        _position(labels) if has_position else None,
    )


@lru_cache(maxsize=4096)
def _shared(name: str, low: int, k: int | None, position: int | None) -> CellSeries:
    """Return one key object for all pods, whose engines have the same few hundred keys."""
    return CellSeries(name, low, k, position)


@lru_cache(maxsize=1024)
def _bucket(name: str, edge: str) -> BucketSeries:
    """Return one key object for all pods, whose engines have the same few dozen edges."""
    if edge != "+Inf" and re.fullmatch(_EDGE, edge, re.ASCII) is None:
        raise LabelError(f"le={edge[:20]!a} is not the edge of a bucket in seconds")
    return BucketSeries(name, float(edge))


def _position(labels: Mapping[str, str]) -> int:
    return _number("position", labels.get("position", ""), MAX_K - 1)


def _number(label: str, text: str, largest: int) -> int:
    # Other digits than ASCII pass `isdigit`, and some of them fail in `int`.
    if text.isascii() and text.isdigit() and len(text) <= len(str(largest)) and int(text) <= largest:
        return int(text)
    raise LabelError(f"{label}={text[:20]!a} is not an integer up to {largest}")


def _combined(key: SeriesKey, engines: Sequence[Samples]) -> tuple[Sample, ...]:
    if len(engines) == 1:
        return tuple(Sample(at, value) for at, value in sorted(engines[0].items()))
    combine = max if key in dialects().by_maximum else sum
    if isinstance(key, CellSeries):
        times = _times_since_the_first(engines)
    else:
        times = sorted(set(engines[0]).intersection(*engines[1:]))
    return tuple(Sample(at, float(combine([samples.get(at, 0.0) for samples in engines]))) for at in times)


def _times_since_the_first(engines: Sequence[Samples]) -> list[float]:
    """Return the common times. Before its first step a plugin's counter is absent, which means 0."""
    begins = [min(samples, default=0.0) for samples in engines]
    return sorted(
        at
        for at in set().union(*engines)
        if all(at in samples or at < begin for samples, begin in zip(engines, begins, strict=True))
    )
