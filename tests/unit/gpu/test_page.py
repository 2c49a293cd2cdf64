"""The page of a check."""

from __future__ import annotations

from pathlib import Path

from tests.gpu.page import page
from tests.unit.gpu.records import ABOUT, a_record

TITLES = {"static": "A live schedule against a fixed K"}


def test_the_page_begins_with_the_verdicts_and_their_source(tmp_path: Path) -> None:
    written = page(a_record(tmp_path / "x"), TITLES)
    first, _, rest = written.partition("How it was measured")
    assert "+0.25 %" in first
    assert "-0.20 to +0.70 %" in first
    for source in ("GPU", "NVIDIA H100 80GB HBM3", "vLLM 0.33.0", "abc1234", "python -m tests.gpu"):
        assert source in first
    assert "A live schedule against a fixed K (eagle3)" in rest


def test_what_was_not_measured_is_named_with_its_reason(tmp_path: Path) -> None:
    written = page(a_record(tmp_path / "x"), TITLES)
    assert "Not measured: eagle3, k0; eagle3, runner." in written
    assert "the operator launches &lt;eagle3&gt; on V1 here" in written


def test_the_pictures_are_in_the_page(tmp_path: Path) -> None:
    written = page(a_record(tmp_path / "x"), TITLES)
    assert written.count("<svg") == 4  # two pictures in two widths
    assert "no drafter" in written
    assert "<script" not in written
    assert "<link" not in written


def test_a_dry_run_says_what_its_figures_are_worth(tmp_path: Path) -> None:
    record = a_record(tmp_path / "x")
    record.about = {**ABOUT, "engine": "cpu", "evidence": "CPU"}
    written = page(record, TITLES)
    assert "Dry run of the GPU check" in written
    assert "say nothing about a GPU" in written
