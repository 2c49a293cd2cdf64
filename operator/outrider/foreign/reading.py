"""Checks of foreign text and objects: bytes, then counts, then types, up to the first error. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from pydantic import TypeAdapter
from pydantic_core import from_json

from outrider.foreign.readers import Reader

T = TypeVar("T")


class InputRefused(ValueError):
    """The input exceeds a limit of its reader, or is not JSON."""


def require_size(reader: Reader, text: str | bytes) -> None:
    """Check the length of a text.

    Raises:
        InputRefused: the text exceeds the reader's limit.
    """
    if len(text) > reader.most_bytes:
        unit = "bytes" if isinstance(text, bytes) else "characters"
        raise InputRefused(f"{len(text)} {unit} exceed the limit of {reader.most_bytes}")


def read_json(reader: Reader, text: str | bytes) -> object:
    """Parse a JSON text.

    Before parsing it counts separators, including those within texts: one separator precedes every value
    except the first. The parser stops at 200 levels.

    Raises:
        InputRefused: the text exceeds a limit of the reader, or is not JSON.
    """
    require_size(reader, text)
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    values = 1 + raw.count(b",") + raw.count(b"[") + raw.count(b"{")
    if values > reader.most_values:
        raise InputRefused(f"about {values} values exceed the limit of {reader.most_values}")
    try:
        value: object = from_json(raw, cache_strings="none")
    except ValueError as error:
        raise InputRefused(f"Invalid JSON: {error}") from error
    require_room(reader, value)
    return value


def read_as(reader: Reader, text: str | bytes, form: TypeAdapter[T]) -> T:
    """Parse a JSON text as a type.

    Raises:
        InputRefused: the text exceeds a limit of the reader, or is not JSON.
        pydantic.ValidationError: the value has another type.
    """
    return form.validate_python(read_json(reader, text))


def require_room(reader: Reader, value: object) -> None:
    """Check the counts of a parsed object, without recursion and without copies.

    Raises:
        InputRefused: the object exceeds a limit of the reader.
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
                    raise InputRefused(f"more than {reader.most_values} values, which is the limit")
                if isinstance(part, Mapping):
                    characters += sum(len(str(key)) for key in part)
                    part = part.values()
                if len(level) > reader.deepest:
                    raise InputRefused(f"nested deeper than {reader.deepest} levels, which is the limit")
                level.append(iter(part))
                break
            if characters > reader.most_bytes:
                raise InputRefused(f"more than {reader.most_bytes} characters, which is the limit")
        else:
            level.pop()
    if characters > reader.most_bytes:
        raise InputRefused(f"more than {reader.most_bytes} characters, which is the limit")


def within(reader: Reader) -> Callable[[object], object]:
    """Return `require_room` as a validator that runs before type checks."""

    def check(value: object) -> object:
        require_room(reader, value)
        return value

    return check
