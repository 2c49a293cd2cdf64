"""What pages quote is what the records of the measurements say, and pictures are what their scripts draw."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.unit.docs.pages import PLACES, ROOT, program_of_the_site, text_of

FOLDER = ROOT / "docs" / "benchmarks"
RECORDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(FOLDER.glob("*.json"))
    if not path.name.endswith(".raw.json")
}
COMPARISON = text_of("docs/guide/comparison.md")
EVIDENCE = ("unit", "source", "simulated", "CPU", "cluster", "GPU")
_INTERVAL = re.compile(r"-?\d+(?:\.\d+)?(?: %)? \[-?[\d.]+, -?[\d.]+\]")


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def figures_of(records: dict[str, dict[str, Any]]) -> str:
    return json.dumps(
        [(each["tables"], each.get("figures")) for each in records.values()], ensure_ascii=False
    )


def section(page: str, title: str) -> str:
    return page.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_says_how_it_was_made_and_what_weakens_it(name: str) -> None:
    record = RECORDS[name]
    assert record["name"] == name
    assert name.startswith(record["date"])
    assert record["shown"].startswith(EVIDENCE)
    assert all((ROOT / each).exists() for each in record["depends"] if each not in record.get("older", ()))
    assert record["raw_note"] if record["raw"] is None else (FOLDER / record["raw"]).is_file()


@pytest.mark.parametrize("name", RECORDS)
def test_a_page_that_shows_a_record_says_its_date_commit_and_limits(name: str) -> None:
    record = RECORDS[name]
    wanted = f"{name}.json): {record['date']}, commit {record['commit']}. {record['limits']}"
    assert [place for place in PLACES if wanted in text_of(place)] != []


def test_every_interval_that_the_comparison_quotes_stands_in_a_record() -> None:
    quoted = _INTERVAL.findall(COMPARISON)
    figures = figures_of(RECORDS)
    assert len(quoted) >= 4
    assert [each for each in quoted if each not in figures and each.replace(" %", "") not in figures] == []


def test_the_picture_of_the_first_screen_is_what_its_script_draws_of_its_record() -> None:
    module = program_of_the_site("demo_bars")
    assert module.PICTURE.read_text() == module.picture()
    words = re.findall(r'<img src="docs/images/demo-bars.svg" .*alt="([^"]+)"', text_of("README.md"))
    said = [float(each) for each in re.findall(r"\b\d{3,4}\b", words[0])]
    assert said == [rate for phase in module.PHASES for rate in module.rates()[phase].values()]


def test_the_picture_of_the_dashboard_is_what_its_script_draws_of_its_record() -> None:
    module = program_of_the_site("dashboard")
    assert module.PICTURE.read_text() == module.picture()
    assert [panel.title for panel in module.panels()] == list(module.TITLES)


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
