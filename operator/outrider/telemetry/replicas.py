"""Selection of one copy where several replicas of Prometheus report the same series. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, TypeVar

from outrider.runtimes import dialects

_MAX_PAUSE = 2.0
"""Scrapes that a copy may lag behind. An older copy comes from a replica that no longer scrapes."""


class Row(Protocol):
    """A series: its labels, and its samples as time and value."""

    @property
    def metric(self) -> Mapping[str, str]:
        """Labels, including the name."""
        ...

    @property
    def values(self) -> Sequence[tuple[float, float]]:
        """Time and value, in rising order of time."""
        ...


_Row = TypeVar("_Row", bound=Row)
_Values = tuple[str, ...]


def one_copy(rows: Sequence[_Row]) -> tuple[list[_Row], tuple[str, ...]]:
    """Return one replica's rows of a target, and the labels in which replicas differ.

    The choice stays with one replica as long as it scrapes; otherwise sums over two answers would mix times.
    A metric without such labels keeps all its rows.
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
    """Return the names of labels that differ between copies of one series.

    Two series of one pod are copies if all labels that engines write are equal.
    """
    of_engines = dialects().labels
    series: defaultdict[tuple[str | None, ...], list[_Row]] = defaultdict(list)
    for row in rows:
        series[tuple(map(row.metric.get, of_engines))].append(row)
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
    """Return the copy with the first labels in order, of those that still get samples."""
    longest = {name: max((row.values for row in rows), key=len) for name, rows in copies.items()}
    ends = {name: values[-1][0] if values else 0.0 for name, values in longest.items()}
    newest = max(ends.values())
    return min(name for name, end in ends.items() if newest - end <= _MAX_PAUSE * _pause(longest[name]))


def _pause(values: Sequence[tuple[float, float]]) -> float:
    return (values[-1][0] - values[0][0]) / (len(values) - 1) if len(values) > 1 else 0.0
