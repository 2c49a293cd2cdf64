"""The checklist for production names tests, values and pages that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from charts.readme import values

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "docs" / "guide" / "production.md"
PAGE = FILE.read_text(encoding="utf-8")
VALUES = {value.name for value in values((ROOT / "charts/outrider/values.yaml").read_text(encoding="utf-8"))}
GROUPS = {name.partition(".")[0] for name in VALUES}


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(tests/[\w./]+)`", PAGE))))
def test_what_shows_a_line_is_there(path: str) -> None:
    assert (ROOT / path).exists()


def shown() -> list[str]:
    """The last cell of each row of the checklists, which are the tables with the column "shown"."""
    tables = re.findall(r"^\| \| \w+ \| shown \|\n\|[-|]+\|\n((?:\|.+\n)+)", PAGE, re.M)
    return [row.rstrip("| ").rpartition("|")[2].strip() for table in tables for row in table.splitlines()]


@pytest.mark.parametrize("cell", shown())
def test_a_line_names_its_test_or_says_that_there_is_none(cell: str) -> None:
    assert "`tests/" in cell or cell.startswith(("yours", "not shown"))


def test_there_are_lines_to_look_at() -> None:
    assert len(shown()) > 25


THREATS = (FILE.parent / "threats.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)", PAGE + THREATS))))
def test_a_link_leads_somewhere(link: str) -> None:
    assert (FILE.parent / link).exists()


def test_values_that_are_to_be_set_are_those_of_the_chart() -> None:
    named = {
        each for each in re.findall(r"`(\w+(?:\.\w+)*)(?:: \w+)?`", PAGE) if each.split(".")[0] in GROUPS
    }

    assert len(named) > 8
    assert named <= VALUES


def test_the_oldest_kubernetes_is_that_of_the_chart() -> None:
    chart = yaml.safe_load((ROOT / "charts/outrider/Chart.yaml").read_text(encoding="utf-8"))

    assert f"Kubernetes | {chart['kubeVersion'].removeprefix('>=').removesuffix('.0-0')} or newer" in PAGE
