"""The page of the decision shows the registry as it is."""

from __future__ import annotations

from pathlib import Path

from outrider.foreign import READERS

PAGE = Path(__file__).parents[3] / "docs/decisions/0058-what-foreign-input-may-cost.md"
_KIB, _MIB = 2**10, 2**20


def table() -> str:
    """One row for each reader."""
    rows = [
        f"| {each.name} | {each.most_bytes // _KIB} KiB | {each.most_values:,} | {each.deepest:,} "
        f"| {each.cpu_seconds:g} s | {each.peak_bytes // _MIB} MiB |"
        for each in READERS
    ]
    head = ["| reader | text | values | levels | CPU | memory |", "|---|---|---|---|---|---|"]
    return "\n".join(head + rows)


def test_the_page_has_the_limits_of_every_reader() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")
