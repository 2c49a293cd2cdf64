"""What pages quote is what their sources say, and pictures are what their scripts draw."""

from __future__ import annotations

import re

import pytest

from tests.unit.docs.pages import program_of_the_site, text_of

COMPARISON = text_of("docs/guide/comparison.md")
LAW, LOOP = text_of("docs/reference/tuning.md"), text_of("docs/guide/benchmark.md")


def section(page: str, title: str) -> str:
    return page.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def rows(text: str) -> list[list[str]]:
    """Cells of the rows of figures of a table."""
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return [cells for cells in found if re.search(r"\d", "".join(cells[1:]))]


@pytest.mark.parametrize("cells", rows(section(COMPARISON, "What each is worth, by simulation")))
def test_a_figure_of_the_simulation_stands_in_the_row_of_its_source(cells: list[str]) -> None:
    name, *figures = cells
    wanted = {"Outrider with a map of step times": "**with a map**", "Outrider without": "mean regret, whole"}
    start = wanted.get(name, name.split(":")[0])
    (line,) = (line for line in LAW.splitlines() if line.startswith(f"| {start}") and "%" in line)
    for figure, cell in zip(figures, line.strip("|").split("|")[1:], strict=True):
        assert cell.strip().strip("*").startswith(figure)


def test_every_interval_of_the_closed_loop_stands_in_its_source() -> None:
    quoted = re.findall(r"-?\d+\.\d \[[^\]]+\]", section(COMPARISON, "The closed loop"))
    assert len(quoted) >= 11
    assert [each for each in quoted if each not in LOOP] == []


def test_the_picture_of_when_it_pays_is_what_its_script_draws() -> None:
    module = program_of_the_site("when_it_pays")
    assert module.PICTURE.read_text() == module.picture()


@pytest.mark.parametrize(
    ("acceptance", "k", "change"), [(0.8, 3, 0.55), (0.5, 5, -0.21), (0.5, 1, 0.15), (0.5, 3, -0.02)]
)
def test_what_the_page_says_of_one_request_on_an_h100_is_the_formulas(
    acceptance: float, k: int, change: float
) -> None:
    module = program_of_the_site("when_it_pays")
    assert module.speedup(module.formula(acceptance), 1, k) - 1 == pytest.approx(change, abs=0.005)


@pytest.mark.parametrize(("streams", "k", "change"), [(1, 3, 0.50), (8, 3, -0.15)])
def test_what_the_page_says_of_the_a40_is_the_tables(streams: int, k: int, change: float) -> None:
    module = program_of_the_site("when_it_pays")
    assert module.speedup(module.measured(), streams, k) - 1 == pytest.approx(change, abs=0.005)


def test_on_the_a40_every_k_loses_with_32_requests() -> None:
    module = program_of_the_site("when_it_pays")
    assert all(module.speedup(module.measured(), 32, k) < 1 for k in module.MEASURED_KS)
