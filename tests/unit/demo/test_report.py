from __future__ import annotations

import json
from pathlib import Path

from examples.demo import report
from examples.demo.picture import draw, smoothed
from examples.demo.result import Sample
from tests.unit.demo.factories import a_result


def test_the_page_and_the_picture_are_written(tmp_path: Path) -> None:
    picture, page = report.write(a_result(), tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert page.read_text().startswith("<!doctype html>")


def test_the_page_needs_no_other_file() -> None:
    page = report.html(a_result(), b"picture")
    assert 'src="data:image/png;base64,' in page
    assert "http" not in page


def test_the_page_says_why_a_run_failed() -> None:
    page = report.html(a_result(restarts=2), b"")
    assert "Engine pods were restarted or replaced 2 times." in page


def test_the_panels_share_one_time_axis() -> None:
    panels = draw(a_result()).axes[:4]
    assert len({axis.get_xlim() for axis in panels}) == 1


def test_a_smoothed_rate_does_not_reach_into_the_phase_before() -> None:
    low = Sample(seconds=1, covered_seconds=1, arm="outrider", lap=2, phase="code x1", streams=1, tokens=10)
    high = low.model_copy(update={"seconds": 2.0, "phase": "code x8", "tokens": 90})
    assert smoothed([low, low, high, high]) == [10, 10, 90, 90]


def test_the_result_is_written_as_json(tmp_path: Path) -> None:
    written = json.loads(a_result().write(tmp_path).read_text())
    assert written["passed"] is True
    assert len(written["phases"]) == 8
