"""Reading of a page of /metrics with the same series as the one before, without a parser. Pure.

An engine shows hundreds of series, and from one scrape to the next only their numbers change.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from io import StringIO
from math import isfinite, nan
from sys import intern

from outrider.runtimes.metrics import CellSeries
from outrider.telemetry.page import Reading, Readings, used_names
from outrider.telemetry.series import PodSeries, Sample, SeriesKey

_MAX_CHARACTERS = 256 * 1024
_MAX_LINES = 4096
"""Limits of a page that the event loop reads, in about 2 ms. A page of vLLM has 60 KB and 600 lines."""
_UNUSED = -1

Engine = tuple[str, ...]


class Layout:
    """The series of one page, each with its place in a row of numbers.

    series: by place. histograms: whether those of latencies are among them. beginning: see `beginning`.
    """

    __slots__ = ("_cells", "_histograms", "_others", "_places", "alone", "beginning", "series")

    def __init__(self, readings: Readings, *, histograms: bool) -> None:
        places: dict[str, int] = {}
        series: list[tuple[Engine, SeriesKey]] = []
        for line, found in readings.items():
            text, _, number = line.rpartition(" ")
            if isinstance(found, Reading):
                place = len(series)
                series.append(_pair(found.engine, found.key))
            elif found is None and _finite(number) is not None:  # so it is not used whatever its number
                place = _UNUSED
            else:
                continue  # so that the parser looks at it again
            if _ends_before_its_number(text):
                places[intern(text)] = place
        self._places = places
        self._histograms = histograms
        self.series = tuple(series)
        self.beginning = next(iter(readings), "").rpartition(" ")[0]
        own = {key: place for place, (_, key) in enumerate(series)}
        self.alone = len(own) == len(series) and len({engine for engine, _ in series}) == 1
        """Whether every key is there once, of one engine, so that nothing is added up."""
        self._cells = tuple((key, place) for key, place in own.items() if isinstance(key, CellSeries))
        self._others: dict[SeriesKey, int] = {
            key: place for key, place in own.items() if not isinstance(key, CellSeries)
        }

    def read(self, text: str, *, histograms: bool) -> array[float] | None:
        """The numbers of a page by place; None if the page has other series or needs the parser."""
        if histograms is not self._histograms or len(text) > _MAX_CHARACTERS or "\r" in text:
            return None
        if text.count("\n") > _MAX_LINES:
            return None
        places, used = self._places, used_names(histograms=histograms)
        values = array("d", (nan,)) * len(self.series)
        for line in text.split("\n"):
            series, _, number = line.rpartition(" ")
            place = places.get(series)
            if place is None:
                if _may_be_used(line.partition("{")[0], used):
                    return None
            elif place != _UNUSED:
                if "_" in number:
                    return None
                try:
                    values[place] = float(number)
                except ValueError:
                    return None
        # Not finite where a series is missing, or has such a number.
        return values if isfinite(sum(values)) else None

    def known(self, text: str) -> Readings:
        """The lines of a page that need no parser, for a page with other series."""
        found: dict[str, Reading | None] = {}
        for line in text.split("\n"):
            series, _, number = line.rpartition(" ")
            place, value = self._places.get(series), _finite(number)
            if place is not None and value is not None:
                found[line] = None if place == _UNUSED else Reading(*self.series[place], value)
        return found

    def rows(self, scrapes: Sequence[tuple[float, array[float]]]) -> PodSeries:
        """The series of scrapes with this layout, without cells that did not change. Only if `alone`."""
        first, moved = scrapes[0][1], dict[SeriesKey, int]()
        for _, values in scrapes[1:]:
            moved |= {key: place for key, place in self._cells if values[place] != first[place]}
        return _Rows({**self._others, **moved}, scrapes)


def beginning(text: str, *, histograms: bool) -> str:
    """The first used series of a page. Pods of a model have the same, and most likely the others too."""
    used = used_names(histograms=histograms)
    first = next((line for line in StringIO(text) if line.startswith(used)), "")
    return first.rstrip("\r\n").rpartition(" ")[0]


class _Rows(PodSeries):
    """Series as columns of scrapes, which are shared and not copied."""

    __slots__ = ("_places", "_scrapes")

    def __init__(
        self, places: Mapping[SeriesKey, int], scrapes: Sequence[tuple[float, array[float]]]
    ) -> None:
        self._places = places
        self._scrapes = scrapes

    def __getitem__(self, key: SeriesKey) -> tuple[Sample, ...]:
        place = self._places[key]
        return tuple(Sample(at, values[place]) for at, values in self._scrapes)

    def __iter__(self) -> Iterator[SeriesKey]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places


@lru_cache(maxsize=8192)
def _pair(engine: Engine, key: SeriesKey) -> tuple[Engine, SeriesKey]:
    """Return one object for the pods of a model, which have the same series."""
    return engine, key


@lru_cache(maxsize=4096)
def _may_be_used(beginning: str, used: tuple[str, ...]) -> bool:
    return beginning.startswith(used)


def _finite(number: str) -> float | None:
    if "_" in number:  # a number for Python, and none for Prometheus
        return None
    try:
        value = float(number)
    except ValueError:
        return None
    return value if isfinite(value) else None


def _ends_before_its_number(series: str) -> bool:
    """Whether a text is exactly name and labels. A timestamp or an exemplar could follow the number."""
    if "{" not in series:
        return " " not in series and "\t" not in series
    one = series.count("{") == series.count("}") == 1
    return one and series.endswith("}") and " # " not in series
