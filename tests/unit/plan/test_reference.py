from __future__ import annotations

from pathlib import Path

from outrider.runtimes.vllm import defects_reference
from outrider.runtimes.vllm.methods_reference import FILE_NAME, render
from outrider_protocol.methods import Method

PAGE = Path(__file__).parents[3] / "docs" / "reference" / FILE_NAME


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == render(), (
        "stale: run `python -m outrider.runtimes.vllm.methods_reference --write docs/reference/`"
    )


def test_the_runbook_of_known_defects_is_up_to_date() -> None:
    page = PAGE.parents[1] / "runbooks" / defects_reference.FILE_NAME
    hint = "stale: run `python -m outrider.runtimes.vllm.defects_reference --write docs/runbooks/`"
    assert page.read_text() == defects_reference.render(), hint


def test_has_a_row_for_every_method() -> None:
    assert [method for method in Method if f"| `{method}` |" not in render()] == []
