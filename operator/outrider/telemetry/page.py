"""The text of /metrics -> readings, as far as they are of use. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from math import isfinite
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample as ParsedSample

from outrider.telemetry import names
from outrider.telemetry.series import MOST_SERIES, LabelError, SeriesKey, series_key

_LONGEST_LINE = 1024
"""Characters. The parser takes time with the square of it; engines write lines of 100 to 300."""
_MOST_QUOTES = 16
"""Of one line; engines write five labels."""
_MOST_CHARACTERS = 1024 * 1024
"""Of all lines that are read; the parser takes half a second for them. 630 series have 80,000."""
_READ = tuple(sorted(names.ALL))
_NAMES = frozenset(names.ALL)

Engine = tuple[str, str]
"""Labels `engine` and `model_name`."""


class Reading(NamedTuple):
    """What one line says."""

    engine: Engine
    key: SeriesKey
    value: float


class Misread(NamedTuple):
    """A line whose labels are wrong."""

    name: str
    problem: str


Readings = Mapping[str, Reading | Misread | None]
"""One scrape, line by line; None for a line of no use."""


def read_text(text: str, known: Readings) -> Readings:
    """What /metrics says of what is read; everything else is skipped unparsed.

    known: the scrape before; a line that has not changed, as most have not, is not parsed again.

    Raises:
        ValueError: a line that is none of the text format, or far too long, or far too many lines.
    """
    # Line by line: a list of all lines would take ten times the memory of a page of comments.
    lines = [line.rstrip("\n") for line in StringIO(text, newline=None) if line.startswith(_READ)]
    if len(lines) > MOST_SERIES:
        raise ValueError(f"{len(lines)} series, at most {MOST_SERIES} are read")
    if sum(map(len, lines)) > _MOST_CHARACTERS:
        raise ValueError(f"series of more than {_MOST_CHARACTERS} characters")
    new = [line for line in lines if line not in known]
    if any(len(line) > _LONGEST_LINE or line.count('"') > _MOST_QUOTES for line in new):
        raise ValueError(f"a line of more than {_LONGEST_LINE} characters or {_MOST_QUOTES} quotes")
    try:
        families = text_string_to_metric_families("\n".join([*new, ""]))
        # Without comments each line is one sample, and they come in their order.
        samples = [sample for family in families for sample in family.samples]
    except Exception as error:  # the parser does not check everything that it takes apart
        raise ValueError(f"not the text format of Prometheus: {str(error)[:100]}") from error
    if len(samples) != len(new):
        raise ValueError("not the text format of Prometheus")
    parsed = {line: _reading(sample) for line, sample in zip(new, samples, strict=True)}
    return {line: parsed[line] if line in parsed else known[line] for line in lines}


def _reading(sample: ParsedSample) -> Reading | Misread | None:
    if sample.name not in _NAMES:
        return None
    try:
        key, value = series_key(sample.name, sample.labels), float(sample.value)
    except LabelError as error:
        return Misread(sample.name, str(error))
    except OverflowError:  # a whole number beyond every float
        return None
    if key is None or not isfinite(value):
        return None
    engine = sample.labels.get("engine", ""), sample.labels.get("model_name", "")
    return Reading(engine, key, value)
