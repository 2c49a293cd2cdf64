"""``outrider explain --at``: what ruled at a time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.api.status import DecisionRecord
from outrider.cli.common.output import CommandError
from outrider.cli.explain.history import lines_of, moment, past
from outrider.cli.main import app
from tests.unit.cli.kubernetes import Kubernetes, serving
from tests.unit.controller.factories import a_raw_model

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def decision(minute: int, before: str, after: str, *, would: bool | None = None) -> DecisionRecord:
    return DecisionRecord.model_validate(
        {
            "time": NOON + timedelta(minutes=minute),
            "from": before,
            "to": after,
            "reason": "BetterK",
            "message": f"to {after}",
            "would": would,
        }
    )


STORED = [decision(20, "*:1", "*:3"), decision(10, "*:5", "*:1")]


def at(minute: float) -> datetime:
    return NOON + timedelta(minutes=minute)


@pytest.mark.parametrize(
    ("minute", "schedule"), [(5, "*:5"), (10, "*:1"), (15, "*:1"), (20, "*:3"), (600, "*:3")]
)
def test_the_last_decision_before_a_time_ruled_at_it(minute: int, schedule: str) -> None:
    assert past(STORED, at(minute)).schedule == schedule


def test_what_ruled_is_told_with_its_reason_and_with_what_ended_it() -> None:
    told = list(lines_of(past(STORED, at(15)), "default/m"))
    assert told[0] == "default/m at 2026-01-01T12:15:00Z, by the last 2 stored decisions"
    assert told[1:4] == [
        "schedule 1+:1 (batch size: K)",
        "  decided 5m before, instead of 1+:5",
        "  BetterK: to *:1",
    ]
    assert told[4:6] == ["5m later: 1+:1 -> 1+:3", "  BetterK: to *:3"]


def test_before_the_oldest_decision_the_table_is_known_and_its_cause_is_not() -> None:
    told = list(lines_of(past(STORED, at(5)), "default/m"))
    assert told[1] == "schedule 1+:5 (batch size: K)"
    assert "not stored" in told[2]


def test_what_would_have_been_done_never_ruled() -> None:
    assert past([decision(12, "*:1", "*:5", would=True), *STORED[1:]], at(15)).schedule == "*:1"


def test_without_a_decision_nothing_is_claimed() -> None:
    found = past([], at(5))
    assert found.schedule is None
    assert "No decision has changed the schedule, or the tuner was reset since." in lines_of(
        found, "default/m"
    )


@pytest.mark.parametrize(
    ("text", "ago"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86_400), ("2026-01-01T12:59:30+01:00", 30)],
)
def test_a_time_is_a_moment_or_how_long_ago(text: str, ago: int) -> None:
    assert moment(text, now=NOON) == NOON - timedelta(seconds=ago)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("yesterday", "or 10m for ten minutes ago"),
        ("2026-01-01T11:00:00", "write 2026-01-01T11:00:00Z"),
        ("2026-01-01", "write 2026-01-01T00:00:00Z"),
        ("800000d", "before the year 1"),
        ("0001-01-01T00:00:00+23:00", "before the year 1"),
        ("2026-01-02T11:00:00Z", "in the future"),
    ],
)
def test_other_times_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        moment(text, now=NOON)


def asked(tmp_path: Path, *words: str) -> tuple[int, str]:
    status = {"decisions": [record.model_dump(mode="json", by_alias=True) for record in STORED]}
    path = "/apis/outrider.dev/v1alpha1/namespaces/default/speculativemodels/m"
    with serving(Kubernetes({path: a_raw_model("m", status=status)}), tmp_path) as environment:
        result = CliRunner().invoke(app, ["explain", "m", *words], env=environment)
    return result.exit_code, result.output


def test_the_command_reads_them_from_the_status(tmp_path: Path) -> None:
    code, output = asked(tmp_path, "--at", "2026-01-01T12:15:00Z", "--json")
    told = json.loads(output)
    assert (code, told["schedule"], told["decision"]["to"], told["next"]["to"]) == (0, "*:1", "*:1", "*:3")


def test_a_time_that_is_none_ends_the_command_with_one_line(tmp_path: Path) -> None:
    code, output = asked(tmp_path, "--at", "noon")
    assert code == 2
    assert output.startswith("outrider explain: --at is noon; write ")
    assert output.count("\n") == 1
