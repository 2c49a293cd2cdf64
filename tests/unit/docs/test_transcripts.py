"""What the pages show as printed is in the form that is printed today."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from outrider.api.crd import PRINTER_COLUMNS
from outrider.api.reasons import ReadyReason
from outrider.cli.doctor.findings import Level
from outrider.cli.main import app
from outrider.cli.status.findings import on_call
from outrider.cli.status.screen import screen_of_all, screen_of_one
from outrider_protocol.schedule import Schedule
from tests.unit.cli import plan_golden
from tests.unit.cli.kit import printed
from tests.unit.controller.factories import a_raw_model
from tests.unit.docs.pages import ROOT, text_of
from tests.unit.docs.transcripts import BENCH, SWEEP, TRANSCRIPTS, VERIFY, of, parts

NOW = datetime(2026, 11, 22, 22, 17, 30, tzinfo=UTC)
IMPORTED = "outrider import -f examples/from-a-deployment/deployment.yaml"
"""Looked at in test_from_a_deployment.py."""
RENDERED = "outrider render examples/qwen3-8b-eagle3.yaml"
SIMULATED = (
    "outrider simulate --tables examples/tables/visible_tables.json --name a40_7b "
    "--policy outrider,hand,acceptance,oracle --plot a40.svg"
)
LIMITED = (
    "outrider simulate --tables examples/tables/visible_tables.json --engine events --load 8,32 --dwell 180 "
    "--latency-limit 16ms --policy outrider,static:0,static:5"
)
RECORDED = {
    "kubectl speculative status twin -n trial",
    "outrider explain twin -n trial",
    "outrider explain twin -n trial --at 30s",
    "outrider status twin -n trial -w",
    "outrider verify twin -n trial --yes",
    BENCH,
    SWEEP,
    VERIFY,
}
"""Looked at in test_recorded.py."""


def test_every_transcript_is_of_a_command_that_is_looked_at() -> None:
    commands = {typed for _, typed, _ in TRANSCRIPTS}
    planned = {f"outrider plan {arguments}" for arguments, _ in plan_golden.runs_of_the_guide()}
    looked_at = {"kubectl get specmodel", "outrider status -A", "outrider doctor"}
    looked_at |= {"outrider status bench-engine", "outrider status scaled"}
    assert commands == planned | looked_at | {IMPORTED, RENDERED, SIMULATED, LIMITED} | RECORDED


@pytest.mark.parametrize("said", of("kubectl get specmodel"))
def test_kubectl_prints_the_columns_of_the_definition(said: str) -> None:
    head, row = said.splitlines()
    shown = [str(column["name"]).upper() for column in PRINTER_COLUMNS if "priority" not in column]
    assert head.split() == " ".join(["NAME", *shown]).split()
    _, ready, reason, table, acceptance, ratio, half, replicas, _ = row.split()
    assert str(Schedule.parse(table)) == table
    assert re.fullmatch(r"\d\.\d\d ±\d\.\d\d", f"{ratio} {half}")
    assert (ready, reason) == ("True", "Serving")
    assert re.fullmatch(r"0\.\d\d", acceptance)
    assert re.fullmatch(r"(\d)/\1", replicas)


def ago(seconds: float) -> str:
    return f"{NOW - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


def a_model(name: str, *, pods: int, table: str, ratio: tuple[str, str, str], **more: Any) -> dict[str, Any]:
    """As the operator reports it. ratio: with its interval, of so many seconds ago."""
    speculation = {
        "state": "Active",
        "scheduleSummary": table,
        "appliedReplicas": pods,
        "acceptanceRate": more["accepted"][0],
        "perPositionAcceptance": more["accepted"][1:],
        "simulated": "h100_8b",
        "speedup": dict(zip(("ratio", "low", "high"), ratio, strict=True))
        | {"reference": "Probe", "measuredAt": ago(more["measured"])},
    }
    ready = {"type": "Ready", "status": "True", "reason": ReadyReason.SERVING, "message": "Serving."}
    conditions = [
        {**each, "lastTransitionTime": ago(since)}
        for each, since in [(ready, 600.0), *more.get("conditions", ())]
    ]
    status = {
        "observedGeneration": 1,
        "reason": "Serving",
        "serving": f"{pods}/{pods}",
        "speculation": speculation,
        "conditions": conditions,
        "decisions": more.get("decisions", []),
    }
    return a_raw_model(name, status=status)


def test_one_model_is_shown_as_the_page_shows_it() -> None:
    (said,) = of("outrider status bench-engine")
    message = re.findall(r"^  BetterK: (.+)$", said, re.M)
    decision = {"from": "6:2,12:1,*:0", "to": "6:2,48:1,*:0", "reason": "BetterK", "message": message[0]}
    raw = a_model(
        "bench-engine",
        pods=4,
        table="6:2,48:1,*:0",
        ratio=("1.24", "1.12", "1.38"),
        accepted=("0.66", "0.70", "0.48", "0.32"),
        measured=33,
        decisions=[{**decision, "time": ago(48)}],
    )
    assert printed(screen_of_one(on_call(raw, NOW), NOW), width=400) == said


def test_work_in_progress_is_shown_as_on_the_page() -> None:
    (said,) = of("outrider status scaled")
    told = dict(re.findall(r"^  (\w+) \w+, \w+: (.+)$", said, re.M))
    settling = {"type": "TuningActive", "status": "False", "reason": "ReplicasSettling"}
    noise = {"type": "SpeculationEffective", "status": "Unknown", "reason": "WithinNoise"}
    raw = a_model(
        "scaled",
        pods=2,
        table="*:2",
        ratio=("1.19", "0.58", "2.44"),
        accepted=("0.59", "0.71", "0.48"),
        measured=6,
        conditions=[
            ({**settling, "message": told["TuningActive"]}, 5.0),
            ({**noise, "message": told["SpeculationEffective"]}, 27.0),
        ],
    )
    assert printed(screen_of_one(on_call(raw, NOW), NOW), width=400) == said


def test_all_models_are_shown_as_the_page_shows_them() -> None:
    (said,) = of("outrider status -A")
    raw = a_model(
        "bench-engine",
        pods=4,
        table="6:2,12:1,*:0",
        ratio=("1.25", "1.1", "1.4"),
        accepted=("0.48",),
        measured=6,
    )
    lines = printed(screen_of_all([on_call(raw, NOW)], NOW)).splitlines()
    assert [line.rstrip() for line in lines] == said.splitlines()


@pytest.mark.parametrize("said", of("outrider doctor"))
def test_the_doctor_says_what_its_checks_say(said: str) -> None:
    sources = "".join(path.read_text() for path in (ROOT / "operator/outrider/cli/doctor").glob("*.py"))
    page = text_of("docs/guide/on-call.md")
    for line in said.splitlines():
        if line.startswith("         do: "):
            assert line.removeprefix("         do: ") in sources
            continue
        level, subject = line[:9].strip(), line[9:].split(":")[0]
        assert level in set(Level)
        assert f'"{subject}"' in sources
        assert f"| {subject} |" in page or subject == "leader"


def printed_here(command: str) -> str:
    """By the command itself, which needs no cluster."""
    result = CliRunner().invoke(app, command.split()[1:])
    assert result.exit_code == 0
    return result.stdout


def test_what_a_manifest_becomes_is_as_the_page_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (said,) = of(RENDERED)
    rest = printed_here(RENDERED)
    assert len(parts(said)) == 4
    for part in parts(said):
        before, found, rest = rest.partition(part)
        assert found, f"not printed, or not in this order: {part}"
        assert before == "" or before.endswith("\n")


def test_a_simulation_prints_what_the_page_shows_and_draws_a_picture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    (said,) = of(SIMULATED)
    picture = tmp_path / "a40.svg"
    assert printed_here(SIMULATED.replace("a40.svg", str(picture))) == said
    assert picture.read_text().startswith("<svg")


def test_a_simulation_under_a_limit_prints_what_the_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert of(LIMITED) == [printed_here(LIMITED)]
