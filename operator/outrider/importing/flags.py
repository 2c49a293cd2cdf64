"""The words of a command line as flags with values, read as the engine's own parser reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from pydantic import JsonValue

from outrider.importing.findings import Findings
from outrider.runtimes.flag_table import FlagTable, Form

Flags = dict[str, JsonValue]
"""Flag without dashes, in full -> True, False, or its value; a list for several values."""

_LEVEL = re.compile(r"-O([0-9])")
_NEGATIVE_NUMBER = re.compile(r"-[0-9]+(\.[0-9]+)?")
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,9})\.[0-9]{1,9}")
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class CommandLine:
    """What a command line says."""

    flags: Flags
    positional: tuple[str, ...]  # words that belong to no flag


def parse(words: Sequence[str], table: FlagTable, findings: Findings) -> CommandLine:
    """Read words as an engine's parser does: ``--flag=value``, ``--flag value``, ``--no-flag``, ``-tp 2``."""
    flags, positional = Flags(), list[str]()
    rest = _split(words, findings)
    while rest:
        word = rest.pop(0)
        name, inline = _name_of(word, table)
        if name is None:
            positional.append(word)
            continue
        following = list(takewhile(lambda word: _name_of(word, table)[0] is None, rest))
        value, taken = _value(name, inline, following, table)
        del rest[:taken]
        _put(flags, name, value, table, findings)
    return CommandLine(flags, tuple(positional))


def _split(words: Sequence[str], findings: Findings) -> list[str]:
    """``--flag value`` in one word is two words; parsers would refuse it."""
    found = list[str]()
    for word in words:
        head, blank, tail = word.strip().partition(" ")
        if blank and head.startswith("--") and "=" not in head:
            findings.check(head, "flag and value are one word in the source; Outrider reads them as two")
            found += [head, tail.strip()]
        else:
            found.append(word)
    return found


def _name_of(word: str, table: FlagTable) -> tuple[str | None, str | None]:
    """Name of a flag in full, and its value where the word has one; no name for other words."""
    if "O" in table.short and (level := _LEVEL.fullmatch(word)):
        return "optimization-level", level[1]
    if word.startswith("--") and len(word) > 2:
        name, equals, value = word[2:].partition("=")
    elif word.startswith("-") and word[1:].partition("=")[0].partition(".")[0] in table.short:
        name, equals, value = word[1:].partition("=")
    else:
        return None, None
    return completed(name, table), value if equals else None


def completed(name: str, table: FlagTable) -> str:
    """A flag in full and with dashes, as the parser completes a shortened one.

    What follows the first dot is a place in JSON and stays as it is.
    """
    head, dot, path = name.partition(".")
    full = table.full_name(head)
    if full not in table.flags and table.positive(full) is None:
        matches = [flag for flag in table.flags if flag.startswith(full)]
        full = matches[0] if len(matches) == 1 else full
    return f"{full}{dot}{path}"


def _value(
    name: str, inline: str | None, following: Sequence[str], table: FlagTable
) -> tuple[JsonValue, int]:
    """The value of a flag, and how many of the words behind it belong to it."""
    form = table.form_of(name)
    switch = "." not in name and (form in (Form.PAIR, Form.SWITCH) or table.positive(name) is not None)
    if inline is not None:
        truth = _TRUTH.get(inline.lower()) if switch else None
        return (truth if truth is not None else _typed(inline)), 0
    if switch:
        truth = _TRUTH.get(following[0].lower()) if following else None
        return (True, 0) if truth is None else (truth, 1)
    if not following:
        return True, 0
    if name in table.several:
        values: list[JsonValue] = [_typed(word) for word in following]
        return (values[0] if len(values) == 1 else values), len(values)
    return _typed(following[0]), 1


def _put(flags: Flags, name: str, value: JsonValue, table: FlagTable, findings: Findings) -> None:
    if name.startswith("no-") and value is True and table.positive(name) is not None:
        name, value = str(table.positive(name)), False
    if name in flags and table.form_of(name) is Form.APPEND:
        value = [*_listed(flags[name]), *_listed(value)]
    elif name in flags and flags[name] != value:
        findings.check(
            f"--{name}",
            f"the source gives it more than once; {table.engine} takes the last one, and so does Outrider",
        )
    flags[name] = value


def _listed(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else [value]


def _typed(word: str) -> JsonValue:
    """A number or an object where the text is exactly one, so that YAML reads well."""
    if _WHOLE.fullmatch(word):
        return int(word)
    if _DECIMAL.fullmatch(word) and str(float(word)) == word:
        return float(word)
    if not word.startswith("{") or "NaN" in word or "Infinity" in word:
        return word
    try:
        value: JsonValue = json.loads(word)
    except (ValueError, RecursionError):
        return word
    return value
