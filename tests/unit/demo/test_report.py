from __future__ import annotations

import json
import re
from html import escape
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from examples.demo import report
from examples.demo.panels import SCHEDULED_K, USED_K, OwnTime, smoothed
from examples.demo.phases import SIMULATED_TRACE, TRACE, Arm
from examples.demo.picture import draw
from examples.demo.result import ArmStretch, Result
from examples.demo.summary import summary
from examples.kit.records import Count
from tests.unit.bench.test_report import Tags
from tests.unit.demo.factories import a_result, a_simulated_lap, a_status, a_stretch
from tests.unit.kit.factories import a_count
from tests.unit.pictures.kit import without_drawing


@pytest.fixture
def charts() -> None:
    """For tests that look at charts: they are drawn."""


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "charts" not in request.fixturenames:
        without_drawing(monkeypatch, report)


@pytest.mark.usefixtures("charts")
def test_the_page_and_the_picture_are_written(tmp_path: Path) -> None:
    picture, page = report.write(a_result(), tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.usefixtures("charts")
def test_the_page_needs_no_other_file() -> None:
    page = report.html(a_result(lap=a_simulated_lap())).replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"https?:|src=|@import|url\(|<script|<link", page) == []


def test_every_tag_of_the_page_is_closed() -> None:
    tags = Tags()
    tags.feed(report.html(a_result(lap=a_simulated_lap(), notes=["a < b"])))
    assert tags.open == []


def test_the_page_is_dark_where_its_reader_is_and_fits_a_narrow_window() -> None:
    page = report.html(a_result())
    assert "prefers-color-scheme:dark" in page
    assert 'name="viewport"' in page
    assert page.count('<div class="broad"><svg') == page.count('<div class="narrow"><svg') > 0


def test_every_phase_has_a_gain_with_its_interval_and_a_picture() -> None:
    page = report.html(a_result())
    rows = re.findall(r"<tr><td>(.*? x\d+)</td>(.*?)</tr>", page)[: len(TRACE)]
    assert [name for name, _ in rows] == [load.name for load in TRACE]
    assert all("+60.0 % [" in row and "+6.7 % [" in row for _, row in rows)
    assert page.count("<h3>") == len(TRACE)


def test_the_page_says_at_which_steps_the_engine_chose_k_and_which() -> None:
    page = report.html(a_result())
    rows = re.findall(r"<td[^>]*>100%</td><td[^>]*>50%</td><td[^>]*>50%</td></tr>", page)
    assert len(rows) == len(TRACE)
    assert "turns: code and prose by turns of 4 s. Each interval of this phase" in page


def test_k_over_time_is_that_of_the_engines_steps_beside_that_of_the_schedule() -> None:
    axis = draw(a_result()).axes[3]
    scheduled, used = axis.lines[:2]
    assert (scheduled.get_label(), used.get_label()) == (SCHEDULED_K, USED_K)
    assert set(used.get_ydata()) == {2.5}
    assert set(scheduled.get_ydata()) == {0, 3, 5}


def test_the_page_says_what_speculation_bought_over_all_phases() -> None:
    (verdict,) = re.findall(r'class="verdict"[^>]*>(.*?)</p>', report.html(a_result()))
    assert "+60.0 % [+60.0, +60.0] over K=0 held; +6.7 % [+6.7, +6.7] over K=5 held." in verdict


def test_noise_of_a_run_is_in_the_headline_of_the_page_and_of_the_screen() -> None:
    found = restless(a_result())
    gains = re.findall(r"([+-][\d.]+) % \[([+-][\d.]+), ([+-][\d.]+)\] over K=", report.headline(found))
    assert len(gains) == 2
    assert all(float(low) < float(value) < float(high) for value, low, high in gains)
    assert escape(report.headline(found)) in report.html(found)
    assert report.headline(found) in [str(part) for part in summary(found)]


def test_an_arm_of_which_too_little_was_seen_has_no_figure_and_the_page_says_where() -> None:
    found = a_result()
    short = [one for one in found.stretches if one.arm is not Arm.NO_DRAFTS or one.load != "prose x2"]
    (verdict,) = re.findall(
        r'class="verdict"[^>]*>(.*?)</p>', report.html(found.model_copy(update={"stretches": short}))
    )
    assert "no figure over K=0 held, too little was seen for an interval in prose x2; +6.7 %" in verdict


def test_every_figure_of_outriders_own_lap_has_its_interval() -> None:
    page = report.html(restless(a_result(lap=a_simulated_lap())))
    rows = re.findall(r"<tr>(?:<td[^>]*>[^<]*</td>){6}</tr>", page)
    own = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]
    own = [cells for cells in own if re.fullmatch(r"\d to \d", cells[3])]
    assert len(own) == len(TRACE) + len(SIMULATED_TRACE)
    for _, settled, whole_phase, _, in_use, acceptance in own:
        assert in_use == "2.5"
        assert all(re.fullmatch(r"[\d.]+ \[[\d.]+, [\d.]+\]", cell) for cell in (settled, whole_phase))
        assert re.fullmatch(r"0\.\d\d \[0\.\d\d, 0\.\d\d\]", acceptance)


def test_what_was_seen_too_shortly_is_said_in_words() -> None:
    found = a_result()
    page = report.html(found.model_copy(update={"acceptance": found.acceptance[:1]}))
    assert page.count("<td>too few</td></tr>") == len(TRACE)


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


def test_the_panels_share_one_time_axis() -> None:
    panels = draw(a_result()).axes[:4]
    assert len({axis.get_xlim() for axis in panels}) == 1


def test_a_smoothed_rate_is_one_of_the_counts_so_far() -> None:
    counts = [a_count(time, tokens=tokens) for time, tokens in enumerate((10, 20, 30, 90), start=1)]
    assert smoothed(counts) == pytest.approx([10, 15, 20, 140 / 3])


def test_a_smoothed_rate_does_not_reach_into_the_phase_before() -> None:
    low, high = a_stretch(tokens=(10, 10)), a_stretch(tokens=(90, 90), start=2.0, streams=8)
    assert OwnTime([low, high]).rates == [10, 10, 90, 90]


def test_the_parts_of_a_phase_lie_between_one_pair_of_edges() -> None:
    own = OwnTime(
        [a_stretch(tokens=(1, 1)), a_stretch(tokens=(1,), start=9.0), a_stretch(start=20, streams=8)]
    )
    assert own.edges == [0.0, 3.0, 23.0]
    assert own.times[:4] == [1.0, 2.0, 3.0, 4.0]


def test_what_is_not_compared_is_marked_where_it_was_driven() -> None:
    learning, own = a_stretch(tokens=(1,) * 4, uncounted=4.0), a_stretch(start=9.0, uncounted=2.0)
    assert OwnTime([learning, own]).uncounted == [(0.0, 4.0), (4.0, 6.0)]


def test_what_other_arms_drove_between_takes_no_room() -> None:
    own = OwnTime([a_stretch(tokens=(1, 1), start=7.0), a_stretch(tokens=(1,), start=19.5, streams=8)])
    assert (own.times, own.edges, own.streams) == ([1.0, 2.0, 3.0], [0.0, 2.0, 3.0], [1, 1, 8])
    assert own.placed([(8.5, 0.1), (12.0, 0.2), (20.0, 0.3)]) == [(1.5, 0.1), (2.5, 0.3)]
    statuses = [a_status(8.0, "4:3,*:0"), a_status(12.0, "*:5"), a_status(20.0, "4:3,*:0")]
    assert own.depths(statuses) == [(1.0, 3), (2.5, 0)]


def test_a_run_without_acceptance_is_drawn_as_well() -> None:
    assert draw(a_result().model_copy(update={"acceptance": []})).axes


def test_the_result_is_written_as_json(tmp_path: Path) -> None:
    written = json.loads(a_result().write(tmp_path).read_text())
    assert written["passed"] is True
    assert len(written["phases"]) == len(TRACE)


SIMULATED = "Step times of an H100 (h100_8b), simulated: nothing is computed"


def titles(result: Result) -> list[str]:
    """Of every part of the picture."""
    return [part.get_suptitle() for part in draw(result).subfigs]


def test_both_parts_of_the_picture_are_labelled() -> None:
    assert titles(a_result(lap=a_simulated_lap())) == ["Computed on this CPU", "", SIMULATED]


def test_without_a_simulated_lap_nothing_in_the_picture_speaks_of_one() -> None:
    assert titles(a_result()) == ["Computed on this CPU", ""]


def test_every_panel_of_the_simulated_lap_says_so_in_its_title() -> None:
    panels = draw(a_result(lap=a_simulated_lap())).subfigs[-1].axes
    assert len(panels) == 3
    assert all("simulated" in (panel.get_title(loc="left") + panel.get_title()).lower() for panel in panels)


def test_the_page_labels_both_parts() -> None:
    page = report.html(a_result(lap=a_simulated_lap()))
    assert "<h2>Tokens per second, computed on this CPU</h2>" in page
    assert f"<h2>{SIMULATED}</h2>" in page


def test_every_heading_over_simulated_figures_says_so() -> None:
    page = report.html(a_result(lap=a_simulated_lap()))
    part = page.split('<section class="simulated">')[1].split("</section>")[0]
    headings = re.findall(r"<h[23]>(.*)</h[23]>", part)
    assert len(headings) == 5
    assert all("simulated" in heading for heading in headings)


def test_a_page_without_a_simulated_lap_does_not_speak_of_one() -> None:
    assert "simulated" not in report.html(a_result()).split("</style>")[1]


def test_notes_are_on_the_page() -> None:
    assert "changed hands once" in report.html(a_result(notes=["Its Lease changed hands once."]))


def test_the_summary_labels_both_parts() -> None:
    parts = summary(a_result(lap=a_simulated_lap()))
    titles = [str(part.title) for part in parts if isinstance(part, Table)]
    assert titles == [
        "Tokens per second, computed on this CPU; ± 95 %",
        f"Tokens per second. {SIMULATED}; ± 95 %",
    ]


def test_the_summary_fits_a_terminal_and_no_rate_stands_without_its_margin() -> None:
    console = Console(file=StringIO(), width=80)
    console.print(*summary(restless(a_result(lap=a_simulated_lap()))), sep="\n")
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    rows = [line for line in lines if re.search(r" x\d+ +│", line)]
    assert len(rows) == len(TRACE) + len(SIMULATED_TRACE)
    assert [row.count("±") for row in rows] == [5] * len(TRACE) + [3] * len(SIMULATED_TRACE)
