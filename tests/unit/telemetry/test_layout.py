"""A page with the series of the page before is read without a parser, and read alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.runtimes.metrics import CellSeries
from outrider.runtimes.vllm import metrics as names
from outrider.telemetry.layout import Layout
from outrider.telemetry.page import Reading, read_text
from outrider.telemetry.series import Sample
from tests.bench.scale.engines import BusyEngine
from tests.unit.telemetry.factories import Counters, PluginCounters, exposition

PAGE = exposition(Counters().ran(), PluginCounters().ran()).decode()
TOKENS = names.GENERATED_TOKENS


def layout(page: str) -> Layout:
    return Layout(read_text(page, {}), histograms=False)


def numbers(page: str) -> list[float]:
    return [found.value for found in read_text(page, {}).values() if isinstance(found, Reading)]


def test_the_next_page_of_an_engine_needs_no_parser() -> None:
    later = exposition(Counters().ran().ran(), PluginCounters().ran().ran()).decode()
    found = layout(PAGE).read(later, histograms=False)
    assert found is not None
    assert list(found) == numbers(later) != numbers(PAGE)


@given(st.permutations(PAGE.splitlines()))
def test_the_order_of_lines_does_not_matter(lines: list[str]) -> None:
    found = layout(PAGE).read("\n".join(lines), histograms=False)
    assert found is not None
    assert list(found) == numbers(PAGE)


@pytest.mark.parametrize(
    ("before", "page"),
    [
        ("", f"{TOKENS} 5\n"),
        (f"{TOKENS} 5\n", f"{names.REQUESTS_WAITING} 1\n"),
        (f"{TOKENS} 5\n", f'{TOKENS} 5\n{TOKENS}{{engine="1"}} 5\n'),
        (f"{TOKENS} 5\n", f"{TOKENS} NaN\n"),
        (f"{TOKENS} 5\n", f"{TOKENS} +Inf\n"),
        (f"{TOKENS} 5\n", f"{TOKENS} 1{'0' * 400}\n"),
        (f"{TOKENS} 5\n", f"{TOKENS} 1_0\n"),
        (f"{TOKENS} 5\n", f"{TOKENS} many\n"),
        (f"{TOKENS} 5\n", f"{TOKENS} \n"),
        (f"{TOKENS} 5\n", f"{TOKENS} 5 1700000000000\n"),
        (f"{TOKENS} 5 1700000000000\n", f"{TOKENS} 5 1700000000001\n"),
        (f'{TOKENS}{{a="b"}} 5 # {{c="d"}} 6\n', f'{TOKENS}{{a="b"}} 5 # {{c="d"}} 7\n'),
        (f'{TOKENS}{{a="b"}} 5 c}} 6\n', f'{TOKENS}{{a="b"}} 5 c}} 7\n'),
        (f'{TOKENS}{{a="}}"}} 5\n', f'{TOKENS}{{a="}}"}} 6\n'),
        (f"{TOKENS} NaN\n", f"{TOKENS} 5\n"),
        (f"{TOKENS} 5\n", f"{TOKENS} 5\r\n"),
        (f"{TOKENS} 5\n", f"{TOKENS} 5\n" + "x\n" * 5000),
        (f"{TOKENS} 5\n", f"{TOKENS} 5\n" + "x" * 300_000),
    ],
    ids=range(18),
)
def test_what_is_not_certain_is_left_to_the_parser(before: str, page: str) -> None:
    try:
        known = layout(before)
    except ValueError:
        known = layout("")
    assert known.read(page, histograms=False) is None


def test_a_page_with_histograms_is_another_page() -> None:
    assert layout(PAGE).read(PAGE, histograms=True) is None


def test_known_lines_of_a_page_with_new_series_are_not_parsed_again() -> None:
    new = f"{PAGE}{names.PROMPT_TOKENS} 7\n"
    known = layout(PAGE).known(new)
    assert known == read_text(PAGE, {})
    assert read_text(new, known) == read_text(new, {})


def test_cells_that_stood_still_are_left_out() -> None:
    before, after = PluginCounters().ran(), PluginCounters().ran().ran(steps=5)
    pages = [exposition(Counters(), counters).decode() for counters in (before, after)]
    found = layout(pages[0])
    first, second = (found.read(page, histograms=False) for page in pages)
    assert first is not None
    assert second is not None
    moved, still = found.rows([(1.0, first), (2.0, second)]), found.rows([(1.0, first), (2.0, first)])
    assert any(isinstance(key, CellSeries) for key in moved)
    assert not any(isinstance(key, CellSeries) for key in still)
    assert still[TOKENS] == (Sample(1.0, 0.0), Sample(2.0, 0.0))


def test_engines_of_the_bench_show_what_a_window_needs() -> None:
    """Else the operator under measurement would decide nothing."""
    page = BusyEngine("a", model=0)._page()
    shown = {found.key for found in read_text(page, {}).values() if isinstance(found, Reading)}
    assert set(names.DIALECT.counters.values()) <= shown
