"""Parser of the text of /metrics, for the metrics that Outrider uses. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from math import isfinite
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample as ParsedSample

from outrider.runtimes import dialects
from outrider.telemetry.series import MAX_SERIES, LabelError, SeriesKey, series_key

_MAX_LINE = 1024
"""Limit of one line in characters. Parsing time rises with its square; engines write 100 to 300."""
_MAX_QUOTES = 16
"""Limit of one line; engines write five labels."""
_MAX_CHARACTERS = 1024 * 1024
"""Limit of all lines together, which take half a second to parse. 630 series have 80,000."""

Engine = tuple[str, ...]
"""Values of the labels that separate engines."""


class Reading(NamedTuple):
    """One parsed line."""

    engine: Engine
    key: SeriesKey
    value: float


class Misread(NamedTuple):
    """One line with wrong labels."""

    name: str
    problem: str


Readings = Mapping[str, Reading | Misread | None]
"""One scrape, line by line; None for a line that Outrider does not use."""


def read_text(text: str, known: Readings, *, histograms: bool = False) -> Readings:
    """Parse the used lines of /metrics and skip all others.

    known: lines that are not parsed again.
    histograms: whether those of latencies are used.

    Raises:
        ValueError: a line not in the text format, a line that is far too long, or far too many lines.
    """
    used = used_names(histograms=histograms)
    # A list of all lines would take ten times the memory of a page of comments.
    lines = [line.rstrip("\n") for line in StringIO(text, newline=None) if line.startswith(used)]
    if len(lines) > MAX_SERIES:
        raise ValueError(f"{len(lines)} series exceed the limit of {MAX_SERIES}")
    if sum(map(len, lines)) > _MAX_CHARACTERS:
        raise ValueError(f"the text of all series exceeds {_MAX_CHARACTERS} characters")
    new = [line for line in lines if line not in known]
    if any(len(line) > _MAX_LINE or line.count('"') > _MAX_QUOTES for line in new):
        raise ValueError(f"a line of more than {_MAX_LINE} characters or {_MAX_QUOTES} quotes")
    try:
        families = text_string_to_metric_families("\n".join([*new, ""]))
        # Without comments each line is one sample, and the parser keeps their order.
        samples = [sample for family in families for sample in family.samples]
    except Exception as error:  # the parser does not check all of its input
        raise ValueError(f"not the text format of Prometheus: {str(error)[:100]}") from error
    if len(samples) != len(new):
        raise ValueError("not the text format of Prometheus")
    parsed = {line: _reading(sample) for line, sample in zip(new, samples, strict=True)}
    return {line: parsed[line] if line in parsed else known[line] for line in lines}


def used_names(*, histograms: bool) -> tuple[str, ...]:
    """The beginnings of used lines. histograms: as for `read_text`."""
    names = dialects().names
    return (*names, *dialects().histograms) if histograms else names


def _reading(sample: ParsedSample) -> Reading | Misread | None:
    dialect = dialects().of(sample.name)
    if dialect is None:
        return None
    try:
        key, value = series_key(sample.name, sample.labels), float(sample.value)
    except LabelError as error:
        return Misread(sample.name, str(error))
    except OverflowError:  # an integer above the largest float
        return None
    if key is None or not isfinite(value):
        return None
    engine = tuple(sample.labels.get(label, "") for label in dialect.engine_labels)
    return Reading(engine, key, value)
