"""Extract the texts of a file, each on its own line of the source, so that a linter reports true places.

The result is Markdown with one list item per text. Comments come apart, because fewer rules apply to them.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

_MIN_WORDS = 3
_WORD = re.compile(r"(?<![\w.])[A-Za-z][a-z'’-]+(?![\w(])")
_CODE = re.compile(r"&&|\|\||==|=>|=~|!=|\(\?|\\[bwds]|\{\{|</")
"""What marks a string as an expression, a pattern or a template instead of a text."""
_FORMAT = re.compile(r"%[-+#0 ]*\d*(?:\.\d+)?[sdrfgi]|\{[^{}]*\}")
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_PRAGMA = re.compile(r"(?:type|fmt|noqa|pragma|mypy)\b")
_PLACEHOLDER = "`x`"
_ANNOTATIONS = r"\s*(?:summary|description):\s*(.*)"
"""What Prometheus shows of an alert."""


@dataclass(frozen=True)
class Line:
    """One line of a text. number: in the source, from 1. begins: the line is the first of its text."""

    number: int
    text: str
    begins: bool


@dataclass(frozen=True)
class Texts:
    """The texts of one file: prose for users and readers, and comments."""

    prose: list[Line]
    comments: list[Line]


def texts(path: PurePath, source: str) -> Texts:
    """Texts of a file. The suffix of `path` decides how the file is read.

    Strings of tests do not count as messages, because most of them repeat the product's.
    """
    match path.suffix:
        case ".md":
            return Texts([Line(number, text, False) for number, text in _numbered(source)], [])
        case ".py":
            lines = _of_python(source, messages="tests" not in path.parts)
            return Texts(sorted(lines, key=lambda line: line.number), list(_comments(source)))
        case ".txt":
            return Texts(list(_of_template(source)), [])
        case _:
            return Texts(list(_of_yaml(source)), [])


def markdown(lines: Iterable[Line]) -> str:
    """Markdown with the same line numbers as the source."""
    rows: list[str] = []
    for line in lines:
        rows += [""] * (line.number - len(rows))
        before = rows[-1]
        new = f"- {line.text}" if line.begins else line.text
        rows[-1] = f"{before.rstrip('.')}. {line.text}" if before else new
    return "\n".join(rows) + "\n"


def _numbered(source: str) -> Iterator[tuple[int, str]]:
    return enumerate(source.split("\n"), start=1)


def _of_python(source: str, *, messages: bool) -> Iterator[Line]:
    tree = list(ast.walk(ast.parse(source)))
    # A string that is a statement documents a module, a class, a function or an attribute.
    docstrings = {id(node.value) for node in tree if isinstance(node, ast.Expr)}
    parts = {id(part) for node in tree if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in tree:
        if isinstance(node, ast.JoinedStr) and messages:
            yield from _message(node.lineno, "".join(map(_spoken, node.values)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            if id(node) in docstrings:
                yield from _docstring(node.lineno, node.value)
            elif messages:
                yield from _message(node.lineno, _FORMAT.sub(_PLACEHOLDER, node.value))


def _docstring(first: int, value: str) -> Iterator[Line]:
    rows = value.split("\n")
    base = min((_indent(row) for row in rows[1:] if row.strip()), default=0)
    literal = False
    for number, row in enumerate(rows, start=first):
        if not row.strip():
            continue
        # As in reStructuredText: a formula or an example stands after a blank line, further to the right.
        deeper = number > first and _indent(row) >= base + 4
        literal = deeper and (literal or not rows[number - first - 1].strip())
        if not literal:
            yield Line(number, _escaped(row.strip()), begins=number == first)


def _indent(row: str) -> int:
    return len(row) - len(row.lstrip())


def _message(number: int, value: str) -> Iterator[Line]:
    """Yield a string of several words on its first line, unless it reads like code."""
    if len(_WORD.findall(value)) >= _MIN_WORDS and not _CODE.search(value):
        rows = (row.strip().rstrip(".") for row in value.split("\n"))
        yield Line(number, _escaped(". ".join(row for row in rows if row)), begins=True)


def _spoken(part: ast.expr) -> str:
    return part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else _PLACEHOLDER


def _comments(source: str) -> Iterator[Line]:
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string.lstrip("#! ").strip()
        if token.type == tokenize.COMMENT and text and not _PRAGMA.match(text):
            number = token.start[0]
            yield Line(number, _escaped(text), begins=number != last + 1)
            last = number


def _of_template(source: str) -> Iterator[Line]:
    plain = _TEMPLATE.sub(lambda found: re.sub(r"[^\n]+", _PLACEHOLDER, found[0]), source)
    return (Line(number, _escaped(row.strip()), True) for number, row in _numbered(plain) if row.strip())


def _of_yaml(source: str) -> Iterator[Line]:
    """Yield comments and the annotations of alerts. The comments of a Makefile look the same."""
    last, annotation = -1, -1
    for number, row in _numbered(source):
        indent = _indent(row)
        comment = re.search(r"(?:^|\s)#+\s+(.*)", row)
        value = re.match(_ANNOTATIONS, row)
        text = ""
        if comment:
            text, annotation = comment[1], -1
        elif value:
            text, annotation, last = value[1].strip(">-|\"' "), indent, -1
        elif 0 <= annotation < indent:
            text, last = row.strip(" \"'"), number - 1
        else:
            annotation = -1
        if text:
            yield Line(number, _escaped(_TEMPLATE.sub(_PLACEHOLDER, text)), begins=number != last + 1)
            last = number


def _escaped(text: str) -> str:
    # Markdown would take it for the beginning of a tag and hide what follows.
    return text.replace("<", "‹")
