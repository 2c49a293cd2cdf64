"""Charts as SVG: true to their numbers, whole as XML, and of the colour of the text around."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from outrider.pictures.svg import Bar, Line, Panel, bars_chart, lines_chart, standalone

SVG = "{http://www.w3.org/2000/svg}"


def parts(chart: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(chart).iter(SVG + tag))


def test_bars_are_as_long_as_their_values() -> None:
    chart = bars_chart([Bar("a", 50.0, 40.0, 60.0, "50"), Bar("b", 100.0, 90.0, 110.0, "100")], told="x")
    short, long = (float(part.attrib["width"]) for part in parts(chart, "rect"))
    assert long == pytest.approx(2 * short, abs=0.2)


def test_each_bar_has_its_interval_and_its_words() -> None:
    chart = bars_chart([Bar("as it is", 50.0, 40.0, 60.0, "50 [40, 60]")], told="x")
    assert [part.text for part in parts(chart, "text")] == ["as it is", "50 [40, 60]"]
    assert len(parts(chart, "path")) == 3


def test_an_interval_that_leaves_the_picture_ends_at_its_edge() -> None:
    chart = bars_chart([Bar("a", 1.0, -5.0, 2.0, "1")], told="x")
    lows = [float(x) for x in re.findall(r"M([\d.]+) ", chart)]
    assert min(lows) >= 84.0


def test_higher_values_lie_higher_and_later_ones_to_the_right() -> None:
    chart = lines_chart([Panel("t", [Line("a", [(0, 1), (10, 3)])])], axis="s", told="x")
    (path,) = (part for part in parts(chart, "path") if part.attrib["stroke"].startswith("#"))
    (left, low), (right, high) = (
        (float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path.attrib["d"])
    )
    assert left < right
    assert high < low


def test_a_step_holds_its_value_until_the_next() -> None:
    chart = lines_chart([Panel("t", [Line("a", [(0, 1), (10, 3)], steps=True)])], axis="s", told="x")
    (path,) = (part for part in parts(chart, "path") if part.attrib["stroke"].startswith("#"))
    assert len(re.findall(r"[ML]", path.attrib["d"])) == 3


def test_text_takes_the_colour_of_what_is_around() -> None:
    chart = lines_chart([Panel("t", [Line("a", [(0, 1)])])], axis="s", told="x")
    assert {part.attrib["fill"] for part in parts(chart, "text")} == {"currentColor"}


def test_a_file_of_its_own_is_dark_where_its_reader_is() -> None:
    chart = standalone(bars_chart([Bar("a", 1.0, 1.0, 1.0, "1")], told="x"))
    assert "prefers-color-scheme:dark" in chart
    ElementTree.fromstring(chart)


def test_names_of_others_are_no_markup() -> None:
    chart = bars_chart([Bar("<script>", 1.0, 1.0, 1.0, "&")], told="<b>")
    assert [part.text for part in parts(chart, "text")] == ["<script>", "&"]


def test_without_a_point_there_is_no_picture() -> None:
    with pytest.raises(ValueError, match="no points"):
        lines_chart([Panel("t", [Line("a", [])])], axis="s", told="x")
