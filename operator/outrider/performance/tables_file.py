"""Reading throughput tables from JSON. Every complaint names the cell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from outrider.api.validation_message import first_validation_message
from outrider.performance.throughput_table import ThroughputTable

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Whole = Annotated[int, Field(strict=True)]


class TableError(ValueError):
    """A file that holds no usable tables; the message names the cell."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str = Field(min_length=1)
    batch_sizes: list[Whole] = Field(min_length=1)
    num_speculative_tokens: list[Whole] = Field(min_length=1)
    tokens_per_second: list[list[Number]]
    no_speculation_tokens_per_second: list[Number] | None = None
    accepted_per_step: list[list[Number | None]] | None = None
    context_length: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    mixture_of_experts: bool = False
    source: str = ""


class _File(BaseModel):
    model_config = ConfigDict(extra="ignore")

    tables: list[_Table] = Field(min_length=1)


def read_tables(path: Path) -> dict[str, ThroughputTable]:
    """Every table of a file, by name.

    Raises:
        TableError: not readable, not JSON, ragged, or a number that cannot be a throughput.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise TableError(f"there is no file {path}; name another file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(f"{path} cannot be read: {error}") from error
    return parse_tables(text, str(path))


def parse_tables(text: str, origin: str) -> dict[str, ThroughputTable]:
    """The same from text; `origin` names it in complaints."""
    try:
        file = _File.model_validate_json(text)
    except ValidationError as error:
        raise TableError(f"{origin}: {first_validation_message(error, whole='file')}") from error
    found: dict[str, ThroughputTable] = {}
    for index, table in enumerate(file.tables):
        place = f"tables[{index}]"
        try:
            _check(table)
        except TableError as error:
            raise TableError(f"{origin}: {place} ({table.name}): {error}") from error
        if table.name in found:
            raise TableError(f"{origin}: {place}.name: {table.name} is there twice")
        found[table.name] = _built(table)
    return found


def select(tables: dict[str, ThroughputTable], name: str | None) -> list[ThroughputTable]:
    """The named table, or all.

    Raises:
        TableError: no such name; the message lists the names.
    """
    if name is None:
        return list(tables.values())
    if name not in tables:
        raise TableError(f"no table {name!r}, there are: {', '.join(tables)}")
    return [tables[name]]


def _check(table: _Table) -> None:
    _distinct("batch_sizes", table.batch_sizes, least=1)
    _distinct("num_speculative_tokens", table.num_speculative_tokens, least=0)
    rows, columns = len(table.batch_sizes), len(table.num_speculative_tokens)
    _length("tokens_per_second", table.tokens_per_second, rows, "batch_sizes")
    for i, row in enumerate(table.tokens_per_second):
        _length(f"tokens_per_second[{i}]", row, columns, "num_speculative_tokens")
        _positive(f"tokens_per_second[{i}]", row)
    if table.no_speculation_tokens_per_second is not None:
        name = "no_speculation_tokens_per_second"
        _length(name, table.no_speculation_tokens_per_second, rows, "batch_sizes")
        _positive(name, table.no_speculation_tokens_per_second)
    if table.accepted_per_step is not None:
        _length("accepted_per_step", table.accepted_per_step, rows, "batch_sizes")
        for i, accepted in enumerate(table.accepted_per_step):
            _length(f"accepted_per_step[{i}]", accepted, columns, "num_speculative_tokens")
            _accepted(f"accepted_per_step[{i}]", accepted, table.num_speculative_tokens)


def _distinct(name: str, values: Sequence[int], *, least: int) -> None:
    for i, value in enumerate(values):
        if value < least:
            raise TableError(f"{name}[{i}] is {value}, must be at least {least}")
        if value in values[:i]:
            raise TableError(f"{name}[{i}] is {value}, which is there already")


def _length(name: str, values: Sequence[object], wanted: int, of: str) -> None:
    if len(values) != wanted:
        missing = f", {name}[{len(values)}] is missing" if len(values) < wanted else ""
        raise TableError(f"{name} has {len(values)} entries, {of} has {wanted}{missing}")


def _positive(name: str, values: Sequence[float]) -> None:
    for j, value in enumerate(values):
        if value <= 0:
            raise TableError(f"{name}[{j}] is {value:g}, must be above 0 tokens per second")


def _accepted(name: str, values: Sequence[float | None], candidates: Sequence[int]) -> None:
    for j, (value, k) in enumerate(zip(values, candidates, strict=True)):
        if value is not None and not 0 <= value <= k:
            raise TableError(f"{name}[{j}] is {value:g}, must be between 0 and K={k}")


def _built(table: _Table) -> ThroughputTable:
    """Rows and columns in rising order, whatever the order in the file."""
    rows = sorted(range(len(table.batch_sizes)), key=table.batch_sizes.__getitem__)
    columns = sorted(range(len(table.num_speculative_tokens)), key=table.num_speculative_tokens.__getitem__)
    candidates = tuple(table.num_speculative_tokens[j] for j in columns)
    none, accepted = table.no_speculation_tokens_per_second, table.accepted_per_step
    return ThroughputTable(
        name=table.name,
        batch_sizes=tuple(table.batch_sizes[i] for i in rows),
        candidates=candidates,
        rows=tuple(tuple(table.tokens_per_second[i][j] for j in columns) for i in rows),
        unspeculated=None if none is None else tuple(none[i] for i in rows),
        accepted=None
        if accepted is None
        else tuple(_filled([accepted[i][j] for j in columns], candidates) for i in rows),
        context_length=table.context_length or 0.0,
        mixture_of_experts=table.mixture_of_experts,
        source=table.source,
        ignored=tuple(sorted(table.model_extra or ())),
    )


def _filled(row: Sequence[float | None], candidates: Sequence[int]) -> tuple[float, ...] | None:
    """Gaps between two known K are filled on a line; None where nothing above K=0 is known."""
    points = {0: 0.0, **{k: value for k, value in zip(candidates, row, strict=True) if value is not None}}
    if max(points) == 0:
        return None
    return tuple(_on_line(k, points) for k in candidates)


def _on_line(k: int, points: dict[int, float]) -> float:
    below = max(x for x in points if x <= k)
    above = min((x for x in points if x >= k), default=below)
    if above == below:
        return points[below]
    return points[below] + (points[above] - points[below]) * (k - below) / (above - below)
