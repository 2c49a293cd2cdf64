"""Foreign text and objects: bytes first, then counts, then types; the first error ends it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from pydantic import TypeAdapter
from pydantic_core import from_json

from outrider.foreign.readers import Reader

T = TypeVar("T")


class InputRefused(ValueError):
    """Larger, deeper or of more values than its reader admits, or no JSON."""


def require_size(reader: Reader, text: str | bytes) -> None:
    """Refuse a text by its length alone.

    Raises:
        InputRefused: longer than the reader admits.
    """
    if len(text) > reader.most_bytes:
        unit = "bytes" if isinstance(text, bytes) else "characters"
        raise InputRefused(f"{len(text)} {unit}, at most {reader.most_bytes} are read")


def read_json(reader: Reader, text: str | bytes) -> object:
    """The value of a JSON text.

    Separators are counted before anything is parsed, also those within texts: one of them stands before every
    value but the first. The parser itself gives up beyond 200 levels.

    Raises:
        InputRefused: beyond the reader's limits, or no JSON.
    """
    require_size(reader, text)
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    values = 1 + raw.count(b",") + raw.count(b"[") + raw.count(b"{")
    if values > reader.most_values:
        raise InputRefused(f"about {values} values, at most {reader.most_values} are read")
    try:
        value: object = from_json(raw, cache_strings="none")
    except ValueError as error:
        raise InputRefused(f"Invalid JSON: {error}") from error
    require_room(reader, value)
    return value


def read_as(reader: Reader, text: str | bytes, form: TypeAdapter[T]) -> T:
    """The value of a JSON text, as a type.

    Raises:
        InputRefused: beyond the reader's limits, or no JSON.
        pydantic.ValidationError: of another type.
    """
    return form.validate_python(read_json(reader, text))


def require_room(reader: Reader, value: object) -> None:
    """Refuse an object that arrived parsed by its counts; no recursion, and nothing is copied.

    Raises:
        InputRefused: beyond the reader's limits.
    """
    values, characters = 1, 0
    level: list[Iterator[object]] = [iter((value,))]
    while level:
        for part in level[-1]:
            if isinstance(part, str):
                characters += len(part)
            elif isinstance(part, Mapping | list | tuple):
                values += len(part)
                if values > reader.most_values:
                    raise InputRefused(
                        f"more than {reader.most_values} values, which is the most that is read"
                    )
                if isinstance(part, Mapping):
                    characters += sum(len(str(key)) for key in part)
                    part = part.values()
                if len(level) > reader.deepest:
                    raise InputRefused(
                        f"nested deeper than {reader.deepest} levels, which is the most that is read"
                    )
                level.append(iter(part))
                break
            if characters > reader.most_bytes:
                raise InputRefused(
                    f"more than {reader.most_bytes} characters, which is the most that is read"
                )
        else:
            level.pop()
    if characters > reader.most_bytes:
        raise InputRefused(f"more than {reader.most_bytes} characters, which is the most that is read")


def within(reader: Reader) -> Callable[[object], object]:
    """`require_room` as a validator that runs before types are looked at."""

    def check(value: object) -> object:
        require_room(reader, value)
        return value

    return check
