"""Raw samples of one pod's metrics, as a source delivers them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from outrider.telemetry import names


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


SeriesKey = str | CellSeries

PodSeries = Mapping[SeriesKey, tuple[Sample, ...]]
"""Metric -> samples in rising order of time.

vLLM's own go by their name, with a `position` label by ``name{position}``.
Several engines in one pod are summed (gauges of a ratio: the largest).
"""

Samples = dict[float, float]
"""Value by time."""

_ENGINE_WIDE = frozenset({names.KV_USAGE, names.PLUGIN_EPOCH})
_OF_CELLS = frozenset({*names.CELL_SUMS, *names.CELL_POSITIONS})


def series_key(name: str, labels: Mapping[str, str]) -> SeriesKey | None:
    """Where a series belongs; None for one that is not used."""
    if labels.get("source", names.LOCAL_COMPUTE) != names.LOCAL_COMPUTE:
        return None
    if name in _OF_CELLS:
        return _cell_series(name, labels)
    return f"{name}{{{labels['position']}}}" if "position" in labels else name


def pod_series(rows: Iterable[tuple[SeriesKey, Samples]]) -> PodSeries:
    """One pod's rows by key; rows of several engines are added.

    Cells that stood still are left out: most of a pod's are, and they say nothing.
    """
    parts: defaultdict[SeriesKey, list[Samples]] = defaultdict(list)
    for key, samples in rows:
        parts[key].append(samples)
    scrapes = max((len(samples) for engines in parts.values() for samples in engines), default=0)
    return {
        key: _combined(key, engines)
        for key, engines in parts.items()
        if not (isinstance(key, CellSeries) and _stood_still(engines, scrapes))
    }


def _stood_still(engines: Sequence[Samples], scrapes: int) -> bool:
    return all(len(samples) == scrapes and len(set(samples.values())) == 1 for samples in engines)


def _cell_series(name: str, labels: Mapping[str, str]) -> CellSeries | None:
    k, position = labels.get("k", ""), labels.get("position")
    low = labels.get("batch", "").rstrip("+").partition("-")[0]
    if not low.isdigit() or not (k == names.MIXED or k.isdigit()):
        return None
    if (position is not None) != (name in names.CELL_POSITIONS) or not (position or "0").isdigit():
        return None
    return CellSeries(
        name, int(low), None if k == names.MIXED else int(k), None if position is None else int(position)
    )


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
