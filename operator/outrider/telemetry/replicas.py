"""Replicas of Prometheus without deduplication: each series comes once from every one. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, TypeVar

_OF_ENGINES = ("__name__", "engine", "model_name", "batch", "k", "position", "source")
"""Labels that engines write. Two series of one pod that agree in them are one series, reported twice."""

_LONGEST_PAUSE = 2.0
"""In scrapes: a copy that is further behind comes from a replica that no longer scrapes."""


class Row(Protocol):
    """A series: its labels, and its samples as time and value."""

    @property
    def metric(self) -> Mapping[str, str]:
        """Labels, the name among them."""
        ...

    @property
    def values(self) -> Sequence[tuple[float, float]]:
        """In rising order of time."""
        ...


_Row = TypeVar("_Row", bound=Row)
_Values = tuple[str, ...]


def one_copy(rows: Sequence[_Row]) -> tuple[list[_Row], tuple[str, ...]]:
    """The rows of one target as one replica has them, and the labels in which replicas differ.

    Always of the same replica, as long as it scrapes: sums over two answers would mix its times otherwise.
    A metric without such labels is kept whole.
    """
    labels = _differing(rows)
    if not labels:
        return list(rows), ()
    labelled = {row.metric.get("__name__") for row in rows if any(_values(row, labels))}
    copies: defaultdict[_Values, list[_Row]] = defaultdict(list)
    kept: list[_Row] = []
    for row in rows:
        told_once = row.metric.get("__name__") not in labelled
        (kept if told_once else copies[_values(row, labels)]).append(row)
    return [*kept, *copies[_steadiest(copies)]], labels


def _differing(rows: Sequence[_Row]) -> tuple[str, ...]:
    """Names of the labels that differ between rows which agree in all that engines write."""
    series: defaultdict[tuple[str | None, ...], list[_Row]] = defaultdict(list)
    for row in rows:
        series[tuple(map(row.metric.get, _OF_ENGINES))].append(row)
    found: set[str] = set()
    for same in series.values():
        if len(same) > 1:
            items = [frozenset(row.metric.items()) for row in same]
            shared = items[0].intersection(*items[1:])
            found.update(name for labels in items for name, _ in labels - shared)
    return tuple(sorted(found))


def _values(row: Row, labels: Collection[str]) -> _Values:
    return tuple(row.metric.get(label, "") for label in labels)


def _steadiest(copies: Mapping[_Values, Sequence[Row]]) -> _Values:
    """The first by its labels of those that are still scraped."""
    longest = {name: max((row.values for row in rows), key=len) for name, rows in copies.items()}
    ends = {name: values[-1][0] if values else 0.0 for name, values in longest.items()}
    newest = max(ends.values())
    return min(name for name, end in ends.items() if newest - end <= _LONGEST_PAUSE * _pause(longest[name]))


def _pause(values: Sequence[tuple[float, float]]) -> float:
    return (values[-1][0] - values[0][0]) / (len(values) - 1) if len(values) > 1 else 0.0
