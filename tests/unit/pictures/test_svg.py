"""Charts as SVG: true to their numbers, whole as XML, and of the colour of the text around."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from outrider.pictures.svg import COLOURS, NARROW, Bar, Line, Panel, bars_chart, lines_chart, standalone

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
    (bar,) = parts(chart, "rect")
    lows = [float(x) for x in re.findall(r"M([\d.]+) ", chart)]
    assert min(lows) >= float(bar.attrib["x"])


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


DIGIT = 8.3
"""Width of a digit of a wide font at 13 px."""


def ends(part: ElementTree.Element) -> tuple[float, float]:
    """Left and right end of a text, as if it were of digits only."""
    assert part.text is not None
    x, wide = float(part.attrib["x"]), DIGIT * len(part.text)
    left = {"start": x, "middle": x - wide / 2, "end": x - wide}[part.attrib["text-anchor"]]
    return left, left + wide


def a_crowded_chart() -> str:
    lines = [Line(f"K={k} held throughout", [(1.0, 1e4), (123456.0, 2e4)]) for k in range(6)]
    title = "share of drafted tokens that were accepted, simulated"
    return lines_chart([Panel(title, lines)], axis="s", told="x", width=NARROW)


def test_a_legend_wraps_into_rows_that_fit_the_width() -> None:
    names = [part for part in parts(a_crowded_chart(), "text") if str(part.text).startswith("K=")]
    assert len({part.attrib["y"] for part in names}) > 1
    assert all(ends(part)[1] <= NARROW for part in names)


def test_what_is_named_once_stands_once_in_the_legend() -> None:
    panel = Panel("t", [Line("a", [(0, 1)])])
    words = [part.text for part in parts(lines_chart([panel, panel], axis="s", told="x"), "text")]
    assert words.count("a") == 1


def test_a_title_wraps_and_keeps_its_words() -> None:
    title = [part for part in parts(a_crowded_chart(), "text") if "font-weight" in part.attrib]
    assert len(title) > 1
    assert " ".join(str(part.text) for part in title).endswith("accepted, simulated")
    assert len({part.attrib["y"] for part in title}) == len(title)


def test_no_text_of_a_narrow_chart_leaves_it() -> None:
    bars = bars_chart([Bar("K=5 held", 1.0, 1.0, 1.0, "12345 [12000, 12690]")], told="x", width=NARROW)
    texts = parts(a_crowded_chart(), "text") + parts(bars, "text")
    assert [part.text for part in texts if ends(part)[0] < 0 or ends(part)[1] > NARROW] == []


def test_bars_end_where_their_figures_begin() -> None:
    chart = bars_chart([Bar("a", 1.0, 1.0, 1.0, "12345 [12000, 12690]")], told="x", width=NARROW)
    (bar,), (_, figures) = parts(chart, "rect"), parts(chart, "text")
    assert float(bar.attrib["x"]) + float(bar.attrib["width"]) < float(figures.attrib["x"])


def test_rounds_are_counted_in_whole_numbers() -> None:
    chart = lines_chart([Panel("t", [Line("a", [(1.0, 0.0), (2.0, 0.0)])])], axis="round", told="x")
    labels = [part.text for part in parts(chart, "text") if part.attrib["text-anchor"] == "middle"]
    assert labels == ["1", "2", "round"]


def luminance(colour: str) -> float:
    """Relative, as WCAG 2 has it."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("page", ["#ffffff", "#16181d"])
@pytest.mark.parametrize("colour", COLOURS)
def test_every_colour_stands_out_from_a_light_and_a_dark_page(colour: str, page: str) -> None:
    low, high = sorted((luminance(colour), luminance(page)))
    assert (high + 0.05) / (low + 0.05) >= 3
