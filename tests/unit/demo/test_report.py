from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path

import pytest
from rich.table import Table

from examples.demo import report
from examples.demo.beside_record import ROWS, Published
from examples.demo.phases import TRACE, Arm
from examples.demo.picture import draw
from examples.demo.result import ArmStretch, Result
from examples.demo.summary import summary
from examples.kit.records import Count
from tests.unit.demo.factories import a_result, a_simulated_lap
from tests.unit.pictures.kit import Tags, without_drawing

PUBLISHED = Published("a-record", "abc1234", dict.fromkeys(ROWS, (1.0, 1.1)))


@pytest.fixture
def charts() -> None:
    """For tests that look at charts: they are drawn."""


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "charts" not in request.fixturenames:
        without_drawing(monkeypatch, report)


@pytest.mark.usefixtures("charts")
def test_picture_and_page_are_written_and_the_page_needs_no_other_file(tmp_path: Path) -> None:
    picture, page = report.write(a_result(lap=a_simulated_lap()), tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = page.read_text().replace("http://www.w3.org/2000/svg", "")
    assert text.startswith("<!doctype html>")
    assert re.findall(r"https?:|src=|@import|url\(|<script|<link", text) == []


def test_every_tag_of_the_page_is_closed() -> None:
    tags = Tags()
    tags.feed(report.html(a_result(lap=a_simulated_lap(), notes=["a < b"])))
    assert tags.open == []


def test_every_phase_has_a_gain_with_its_interval_and_a_picture() -> None:
    page = report.html(a_result())
    rows = re.findall(r"<tr><td>(.*? x\d+)</td>(.*?)</tr>", page)[: len(TRACE)]
    assert [name for name, _ in rows] == [load.name for load in TRACE]
    assert all("+60.0 % [" in row and "+6.7 % [" in row for _, row in rows)
    assert page.count("<h3>") == len(TRACE)


def test_noise_of_a_run_is_in_the_headline_of_the_page_and_of_the_screen() -> None:
    found = restless(a_result())
    gains = re.findall(r"([+-][\d.]+) % \[([+-][\d.]+), ([+-][\d.]+)\] over K=", report.headline(found))
    assert len(gains) == 2
    assert all(float(low) < float(value) < float(high) for value, low, high in gains)
    assert escape(report.headline(found)) in report.html(found)
    assert report.headline(found) in [str(part) for part in summary(found, PUBLISHED)]


def test_an_arm_of_which_too_little_was_seen_has_no_figure_and_the_page_says_where() -> None:
    found = a_result()
    short = [one for one in found.stretches if one.arm is not Arm.NO_DRAFTS or one.load != "prose x2"]
    (verdict,) = re.findall(
        r'class="verdict"[^>]*>(.*?)</p>', report.html(found.model_copy(update={"stretches": short}))
    )
    assert "no figure over K=0 held, too little was seen for an interval in prose x2; +6.7 %" in verdict


def restless(found: Result) -> Result:
    """The same with every other pair of counts a tenth higher."""
    return found.model_copy(
        update={"stretches": [one.model_copy(update={"counts": _restless(one)}) for one in found.stretches]}
    )


def _restless(stretch: ArmStretch) -> tuple[Count, ...]:
    return tuple(
        each.model_copy(update={"tokens": each.tokens * 11 // 10}) if index // 2 % 2 else each
        for index, each in enumerate(stretch.counts)
    )


def test_the_page_says_why_a_run_failed() -> None:
    page = report.html(a_result(restarts=2))
    assert "Engine pods were restarted or replaced 2 times." in page


def test_the_result_is_written_as_json(tmp_path: Path) -> None:
    written = json.loads(a_result().write(tmp_path).read_text())
    assert written["passed"] is True
    assert len(written["phases"]) == len(TRACE)


SIMULATED = "Step times of an H100 (h100_8b), simulated: nothing is computed"


def titles(result: Result) -> list[str]:
    """Of every part of the picture."""
    return [part.get_suptitle() for part in draw(result).subfigs]


def test_the_page_labels_both_parts() -> None:
    page = report.html(a_result(lap=a_simulated_lap()))
    assert "<h2>Tokens per second, computed on this CPU</h2>" in page
    assert f"<h2>{SIMULATED}</h2>" in page


def test_the_summary_labels_both_parts() -> None:
    parts = summary(a_result(lap=a_simulated_lap()), PUBLISHED)
    titles = [str(part.title) for part in parts if isinstance(part, Table)]
    assert titles == [
        "Tokens per second, computed on this CPU; ± 95 %",
        f"Tokens per second. {SIMULATED}; ± 95 %",
        "Gain of Outrider, and of the published runs (a-record, commit abc1234)",
    ]


def test_gains_on_gpus_are_not_put_beside_those_on_a_cpu() -> None:
    found = a_result()
    on_gpus = found.conditions.model_copy(update={"on_gpus": True})
    parts = summary(found.model_copy(update={"conditions": on_gpus}), PUBLISHED)
    assert len([part for part in parts if isinstance(part, Table)]) == 1
