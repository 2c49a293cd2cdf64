"""docs/reference/plan.md."""

from __future__ import annotations

from pathlib import Path

from outrider.sizing.reference import FILE_NAME, render

PAGE = Path(__file__).parents[3] / "docs" / "reference" / FILE_NAME


def test_the_page_is_up_to_date() -> None:
    hint = "stale: run `python -m outrider.sizing.reference --write docs/reference/`"
    assert PAGE.read_text(encoding="utf-8") == render(), hint
