"""The words of a shell script. Quotes decide whether the value of a variable is one word or several."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from outrider.importing.variables import LONGEST

_KUBERNETES = r"\$\([A-Z_a-z][A-Z_a-z0-9.-]*\)"
_VARIABLE = r"\$(?:\{[A-Za-z_][A-Za-z0-9_]*(?::?-[^}]*)?\}|[A-Za-z_][A-Za-z0-9_]*)"
_NAMED = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)(?:(:?)-([^}]*))?\}?", re.DOTALL)
_REFUSED = r"(?P<command>`|\$\()|(?P<own>\$[@*#?$!0-9{])"
_PIECE = re.compile(
    r"(?P<joined>\\\n)|(?P<blank>[ \t\r]+)|(?P<operator>[;&|<>()\n]+)"
    r"|'(?P<single>[^']*)'|\"(?P<double>(?:[^\"\\]|\\.)*+)\"|\\(?P<escaped>.)"
    rf"|(?P<kubernetes>{_KUBERNETES})|(?P<variable>{_VARIABLE})|{_REFUSED}"
    r"|(?P<plain>\$|[^ \t\r;&|<>()\n'\"\\$`]+)",
    re.DOTALL,
)
_IN_QUOTES = re.compile(
    r"(?P<joined>\\\n)|\\(?P<escaped>[$`\"\\])"
    rf"|(?P<kubernetes>{_KUBERNETES})|(?P<variable>{_VARIABLE})|{_REFUSED}"
    r"|(?P<plain>[$\\]|[^$`\\]+)",
    re.DOTALL,
)
_ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_BLANKS = re.compile(r"[ \t\n]+")


class Unreadable(ValueError):
    """A script that needs a shell to be understood; the message says what it does."""


@dataclass(frozen=True, slots=True)
class Operator:
    """What ends a command, such as ``&&``."""

    text: str


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a word under one kind of quotes."""

    text: str
    quoted: bool
    is_variable: bool = False


Word = tuple[Part, ...]


def tokens(script: str, *, in_pod: bool) -> Iterator[Word | Operator]:
    """The words and operators of a script, without its comments.

    in_pod: ``$(NAME)`` is a variable, and no command.

    Raises:
        Unreadable: it needs a shell to be understood.
    """
    place, word = 0, list[Part]()
    while place < len(script):
        if not word and script[place] == "#":
            line_end = script.find("\n", place)
            place = len(script) if line_end < 0 else line_end
            continue
        match = _PIECE.match(script, place)
        if match is None:
            raise Unreadable("has a quote that does not end")
        place, kind = match.end(), str(match.lastgroup)
        if kind in ("blank", "operator"):
            if word:
                yield tuple(word)
                word = []
            if kind == "operator":
                yield Operator(match[0])
        elif kind == "double":
            word += _in_quotes(match["double"], in_pod)
        elif kind != "joined":
            word.append(_part(kind, match[kind], kind in ("single", "escaped"), in_pod))
    if word:
        yield tuple(word)


def _in_quotes(text: str, in_pod: bool) -> Iterator[Part]:
    yield Part("", quoted=True)  # "" is a word, too.
    for match in _IN_QUOTES.finditer(text):
        kind = str(match.lastgroup)
        if kind != "joined":
            yield _part(kind, match[kind], True, in_pod)


def _part(kind: str, text: str, quoted: bool, in_pod: bool) -> Part:
    if kind == "command" or (kind == "kubernetes" and not in_pod):
        raise Unreadable("runs a command inside another one")
    if kind == "own":
        raise Unreadable("uses a variable of the shell itself")
    return Part(text, quoted, is_variable=kind == "variable")


def assigns(word: Word) -> bool:
    """Whether the word sets a variable, where it stands before a command."""
    return not word[0].quoted and _ASSIGNS.match(word[0].text) is not None


def with_values(word: Word, values: Mapping[str, str], declared: Set[str], *, splits: bool) -> list[str]:
    """The words that a word becomes. A value without quotes is split at blanks where ``splits``.

    Raises:
        Unreadable: the value of a variable is not known.
    """
    found, current, length = list[str](), None, 0
    for part in word:
        text, whole = _value(part, values, declared) if part.is_variable else (part.text, True)
        length += len(text) if part.is_variable else 0
        if length > LONGEST:
            raise Unreadable(f"has variables in one word with more than {LONGEST} characters")
        pieces = [text] if whole or not splits else _BLANKS.split(text)
        for index, piece in enumerate(pieces):
            if index and current is not None:
                found.append(current)
                current = None
            if piece or whole:
                current = (current or "") + piece
    return found if current is None else [*found, current]


def _value(part: Part, values: Mapping[str, str], declared: Set[str]) -> tuple[str, bool]:
    """The value of a variable, and whether it stays one word."""
    match = _NAMED.fullmatch(part.text)
    assert match is not None
    name, colon, default = match[1], match[2], match[3]
    value = values.get(name)
    if value is not None and (value or not colon):
        return value, part.quoted
    if value is None and name in declared:
        return f"$({name})", True
    if default is not None and "$" not in default:
        return _default(default, quoted=part.quoted)
    if value is not None:
        return value, part.quoted
    raise Unreadable(f"uses the variable {name}, whose value the source does not have")


def _default(text: str, *, quoted: bool) -> tuple[str, bool]:
    if not quoted and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text, quoted = text[1:-1], True
    if any(mark in text for mark in "'\"\\`"):
        raise Unreadable("has a default with quotes in it")
    return text, quoted
