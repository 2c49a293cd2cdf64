"""The page of a bench: complete and self-contained, with an interval at every figure."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from outrider.api.status import DecisionRecord
from outrider.bench import report
from outrider.bench.arms import AS_IT_IS, NO_DRAFTS
from outrider.bench.guidellm import Slice
from outrider.bench.report import page_of
from outrider.bench.result import Result, Unread, dollars, json_of, text_of
from tests.unit.bench.kit import a_result
from tests.unit.pictures.kit import Tags, without_drawing

FOUND = a_result(as_it_is=[120.0, 130.0], k0=[100.0, 101.0], k3=[125.0, 126.0])


@pytest.fixture
def charts() -> None:
    """For tests that look at charts: they are drawn."""


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "charts" not in request.fixturenames:
        without_drawing(monkeypatch, report)


def with_setting(result: Result, **changes: object) -> Result:
    return replace(result, setting=replace(result.setting, **changes))  # type: ignore[arg-type]


def page(result: Result = FOUND) -> str:
    return page_of(result, when="2026-01-01 12:00 UTC")


@pytest.mark.usefixtures("charts")
def test_every_tag_is_closed() -> None:
    tags = Tags()
    tags.feed(page(with_setting(FOUND, price_per_hour=2.4, simulated="h100_8b")))
    assert tags.open == []


@pytest.mark.usefixtures("charts")
def test_the_page_loads_nothing() -> None:
    text = page().replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"https?:|src=|@import|url\(|<script|<link", text) == []


def test_the_page_is_dark_where_its_reader_is_and_fits_a_narrow_window() -> None:
    assert "prefers-color-scheme:dark" in page()
    assert 'name="viewport"' in page()


def test_the_verdict_comes_with_its_interval() -> None:
    (verdict,) = re.findall(r'class="verdict"[^>]*>(.*?)</p>', page())
    assert re.search(r"<b>\+\d+\.\d % \[[+-]\d+\.\d, \+\d+\.\d\]</b> tokens per second over K=0", verdict)


def test_every_arm_has_a_row_with_its_intervals() -> None:
    rows = re.findall(r"<tr>(<td>.*?)</tr>", page())
    assert [re.findall(r"<td>(.*?)</td>", row)[0] for row in rows] == ["as it is", "K=0", "K=3"]
    assert all(row.count("[") >= 3 for row in rows)


def test_money_is_there_only_with_a_price() -> None:
    assert "$" not in page()
    assert "$ per million tokens" in page(with_setting(FOUND, price_per_hour=2.4))


def test_a_million_tokens_cost_what_the_hours_do_in_which_they_come() -> None:
    cost = dollars({AS_IT_IS: [1000.0, 1000.0]}, 3.6)[AS_IT_IS]
    assert (cost.value, cost.low, cost.high) == pytest.approx((1.0, 1.0, 1.0))


def test_costs_stay_above_nothing_however_wide_the_interval() -> None:
    assert dollars({NO_DRAFTS: [1.0, 1000.0]}, 3.6)[NO_DRAFTS].low > 0


def test_text_and_json_have_the_costs_too() -> None:
    priced = with_setting(FOUND, price_per_hour=2.4)
    assert sum(line.startswith("$ per million tokens") for line in text_of(priced)) == 3
    assert "dollarsPerMillionTokens" in str(json_of(priced)["arms"])


def test_engines_that_compute_nothing_are_told_of_before_any_figure() -> None:
    told = with_setting(FOUND, simulated="h100_8b")
    assert page(told).index("Simulated.") < page(told).index('class="verdict"')
    assert list(text_of(told))[1].startswith("simulated: engines compute nothing")
    assert "Simulated." not in page()


def test_what_the_tuner_did_is_told_in_its_order_and_in_its_words() -> None:
    made = [
        {"time": f"2026-01-01T12:0{minute}:00Z", "from": "*:1", "to": f"*:{minute}", "reason": "BetterK"}
        for minute in (3, 2)
    ]
    text = page(replace(FOUND, decisions=[DecisionRecord.model_validate(each) for each in made]))
    assert text.index("12:02:00 UTC: *:1 → *:2") < text.index("12:03:00 UTC: *:1 → *:3")
    assert "did not change" in page()


def test_decisions_that_were_not_read_are_not_told_as_none() -> None:
    text = page(replace(FOUND, decisions=Unread("<no answer>")))
    assert "Not known: &lt;no answer&gt;" in text
    assert "did not change" not in text


def test_a_bench_that_ended_early_says_so_before_its_verdict() -> None:
    text = page(replace(with_setting(FOUND, rounds=4), ended="stopped"))
    assert text.index("Ended after 2 of 4 rounds.") < text.index('class="verdict"')
    assert ", 2 rounds of " in text


@pytest.mark.parametrize(
    ("slices", "why"),
    [
        (
            [Slice(1.0, None, None, 0, 0)] * 2,
            "no answer finished in a measurement",
        ),
        (
            [Slice(1.0, None, None, 9, 0)] * 2,
            "the program that sent the load reported no milliseconds",
        ),
        (
            [Slice(1.0, 5.0, 5.0, 9, 0), Slice(1.0, None, None, 0, 0)],
            "no arm has it in 2 measurements, which an interval needs",
        ),
    ],
    ids=["none-finished", "none-told", "one-slice"],
)
def test_where_there_are_no_milliseconds_the_page_says_why(slices: list[Slice], why: str) -> None:
    assert page(Result(FOUND.setting, dict.fromkeys(FOUND.slices, slices))).count(why) == 2


def test_names_of_others_are_no_markup() -> None:
    assert "<script>" not in page(with_setting(FOUND, name="<script>"))
