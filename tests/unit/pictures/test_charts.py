"""Charts as SVG: true to their numbers, whole as XML, and of the colour of the text around."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from matplotlib.textpath import TextPath

from outrider.pictures.charts import COLOURS, NARROW, Bar, Line, Panel, bars_chart, lines_chart, standalone

SVG = "{http://www.w3.org/2000/svg}"


def parts(chart: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(chart).iter(SVG + tag))


def texts(chart: str) -> list[str]:
    return [str(part.text) for part in parts(chart, "text")]


def places(chart: str, colour: str) -> list[list[tuple[float, float]]]:
    """Corners of what is drawn in a colour, in pixels from the upper left."""
    drawn = [
        part.attrib["d"] for part in parts(chart, "path") if colour.lower() in part.attrib.get("style", "")
    ]
    return [[(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", each)] for each in drawn]


def a_line(*points: tuple[float, float], steps: bool = False) -> list[tuple[float, float]]:
    chart = lines_chart([Panel("t", [Line("a", points, steps=steps)])], axis="s", alt="x")
    line, _legend = places(chart, COLOURS[0])
    return line


def test_bars_are_as_long_as_their_values() -> None:
    chart = bars_chart([Bar("a", 50.0, 40.0, 60.0, "50"), Bar("b", 100.0, 90.0, 110.0, "100")], alt="x")
    bars = [places(chart, colour)[0] for colour in COLOURS[:2]]
    short, long = (max(x for x, _ in bar) - min(x for x, _ in bar) for bar in bars)
    assert long == pytest.approx(2 * short, abs=0.2)


def test_each_bar_has_its_name_and_its_words() -> None:
    chart = bars_chart([Bar("as it is", 50.0, 40.0, 60.0, "50 [40, 60]")], alt="x")
    assert sorted(texts(chart)) == ["50 [40, 60]", "as it is"]


def test_an_interval_that_leaves_the_picture_ends_at_its_edge() -> None:
    chart = bars_chart([Bar("a", 1.0, -5.0, 2.0, "1")], alt="x")
    left = min(x for x, _ in places(chart, COLOURS[0])[0])
    (interval,) = places(chart, "stroke-width: 1.5")
    assert min(x for x, _ in interval) >= left


def test_higher_values_lie_higher_and_later_ones_to_the_right() -> None:
    (left, low), (right, high) = a_line((0, 1), (10, 3))
    assert left < right
    assert high < low


def test_a_step_holds_its_value_until_the_next() -> None:
    (_, first), (_, second), (_, third) = a_line((0, 1), (10, 3), steps=True)
    assert first == second > third


def test_text_takes_the_colour_of_what_is_around() -> None:
    chart = lines_chart([Panel("t", [Line("a", [(0, 1)])])], axis="s", alt="x")
    assert all("fill: currentColor" in part.attrib["style"] for part in parts(chart, "text"))


def test_a_file_of_its_own_is_dark_where_its_reader_is() -> None:
    chart = standalone(bars_chart([Bar("a", 1.0, 1.0, 1.0, "1")], alt="x"))
    assert "prefers-color-scheme:dark" in chart
    ElementTree.fromstring(chart)


def test_a_chart_in_a_page_brings_no_style_for_others() -> None:
    assert "<style" not in bars_chart([Bar("a", 1.0, 1.0, 1.0, "1")], alt="x")


def test_names_of_others_are_no_markup() -> None:
    chart = bars_chart([Bar("<script>", 1.0, 1.0, 1.0, "&")], alt="<b>")
    assert sorted(texts(chart)) == ["&", "<script>"]


def test_a_name_is_no_formula() -> None:
    assert "$K$" in texts(bars_chart([Bar("$K$", 1.0, 1.0, 1.0, "1")], alt="x"))


def test_without_a_point_there_is_no_picture() -> None:
    with pytest.raises(ValueError, match="no points"):
        lines_chart([Panel("t", [Line("a", [])])], axis="s", alt="x")


def ends(part: ElementTree.Element) -> tuple[float, float]:
    """Left and right end of a text, in a wide font."""
    (at,) = re.findall(r"(?:translate|rotate)\((?:-0 )?(\S+)", part.attrib["transform"])
    x, wide = float(at), TextPath((0, 0), str(part.text), size=13).get_extents().width
    anchor = part.attrib["style"].partition("text-anchor: ")[2].partition(";")[0]
    left = {"start": x, "": x, "middle": x - wide / 2, "end": x - wide}[anchor]
    return left, left + wide


def test_no_text_of_a_narrow_chart_leaves_it() -> None:
    lines = [Line(f"K={k} held throughout", [(1.0, 1e4), (123456.0, 2e4)]) for k in range(6)]
    title = "share of drafted tokens that were accepted, simulated"
    crowded = lines_chart([Panel(title, lines)], axis="s", alt="x", width=NARROW)
    bars = bars_chart([Bar("K=5 held", 1.0, 1.0, 1.0, "12345 [12000, 12690]")], alt="x", width=NARROW)
    drawn = parts(crowded, "text") + parts(bars, "text")
    assert [part.text for part in drawn if ends(part)[0] < 0 or ends(part)[1] > NARROW] == []


def test_what_is_named_twice_stands_once_in_the_legend() -> None:
    panel = Panel("t", [Line("a", [(0, 1)])])
    assert texts(lines_chart([panel, panel], axis="s", alt="x")).count("a") == 1


def test_rounds_are_counted_in_whole_numbers() -> None:
    words = texts(lines_chart([Panel("t", [Line("a", [(1.0, 0.0), (2.0, 0.0)])])], axis="round", alt="x"))
    assert words[: words.index("round")] == ["1", "2"]


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
