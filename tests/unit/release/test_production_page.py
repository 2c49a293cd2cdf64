"""The checklist for production names tests, values and pages that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from charts.readme import values
from outrider.api.crd import structural_schema
from outrider.api.spec import Spec
from outrider_protocol.schedule import MAX_ROWS

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


def test_the_number_of_alerts_is_that_of_the_chart() -> None:
    groups = yaml.safe_load((ROOT / "charts/outrider/files/alerts.yaml").read_text(encoding="utf-8"))[
        "groups"
    ]
    alerts = [rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule]

    assert len(alerts) == 8
    assert "All eight provoked" in PAGE


def test_the_limits_of_k_and_of_schedules_are_those_of_the_code() -> None:
    speculation = structural_schema(Spec)["properties"]["speculation"]["properties"]  # type: ignore[index]
    rows, most = speculation["schedule"]["maxItems"], speculation["numSpeculativeTokens"]["maximum"]

    assert f"| K | {most} |" in PAGE
    assert f"| Rows of a schedule | {rows} in a manifest, {MAX_ROWS} in an override" in PAGE
