"""What pages take from records: tables below a mark, and the line that says how old a record is.

``<!-- record NAME INDEX -->`` stands above a table, and a line that begins with ``[Record](…NAME.json):``
names a record. Both are written, and the sentences between them are people's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.records.record import ROOT, Record, Table

OLDER = "**Older code:** what decides these figures changed afterwards."
"""The record has the names of what changed."""

_TABLE = re.compile(r"^<!-- record (?P<name>\S+) (?P<index>\d+) -->\n(?:\|.*\n)*", re.M)
_LINE = re.compile(r"^\[Record\]\((?P<folder>[^)]*?)(?P<name>[^/)]+)\.json\): .*$", re.M)


def pages(root: Path = ROOT) -> Sequence[Path]:
    """Every page that may quote a record."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def rewritten(text: str, known: Mapping[str, Record]) -> str:
    """A page with the tables and lines of its records.

    Raises:
        KeyError: no such record. IndexError: no such table.
    """
    text = _TABLE.sub(lambda found: _marked(found, known), text)
    return _LINE.sub(lambda found: line_of(known[found["name"]], found["folder"]), text)


def line_of(record: Record, folder: str) -> str:
    """Date, commit, limits and age of a record. folder: from the page to the record."""
    head = f"[Record]({folder}{record.name}.json): {record.date}, commit {record.commit}. {record.limits}"
    return f"{head} {OLDER}" if record.older else head


def _marked(found: re.Match[str], known: Mapping[str, Record]) -> str:
    table = known[found["name"]].tables[int(found["index"])]
    return f"<!-- record {found['name']} {found['index']} -->\n{lines(table)}"


def lines(table: Table) -> str:
    """Markdown."""
    rows = [_row(table.columns), "|" + "---|" * len(table.columns), *map(_row, table.rows)]
    return "\n".join(rows) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)
