from __future__ import annotations

from pathlib import Path

from outrider.api.reasons import ConditionType, MetricsReason
from outrider.api.reference import FILE_NAME, render

PAGE = Path(__file__).parents[3] / "docs" / "reference" / FILE_NAME


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == render(), (
        "stale: run `python -m outrider.api.reference --write docs/reference/`"
    )


def test_names_every_condition_and_reason() -> None:
    page = render()
    assert all(f"`{value}`" in page for value in (*ConditionType, *MetricsReason))


def test_lists_the_admission_rules() -> None:
    assert (
        "- spec.cache keeps what is downloaded from hf:// or s3://, and neither model nor drafter is; "
        "leave it out" in render()
    )
