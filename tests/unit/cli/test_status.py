"""``outrider status`` as a person on call reads it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from outrider.api.conditions import ConditionType, rfc3339
from outrider.cli.common.options import ClusterChoice
from outrider.cli.common.output import CommandError
from outrider.cli.main import app
from outrider.cli.status.findings import OnCall, Urgency, on_call
from outrider.cli.status.reading import Models, Question, follow, look
from outrider.cli.status.screen import screen_of_all, screen_of_one
from tests.unit.cli.kit import printed
from tests.unit.cli.kubernetes import Kubernetes, a_list, serving
from tests.unit.cluster.factories import a_cluster, answer, refusal
from tests.unit.controller.factories import a_raw_model

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
BEGAN = datetime(2026, 1, 1, 11, 56, tzinfo=UTC)
ALL = "/apis/outrider.dev/v1alpha1/speculativemodels"
HERE = "/apis/outrider.dev/v1alpha1/namespaces/default/speculativemodels"


def a_condition(kind: str, status: str, reason: str, message: str = "why") -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(BEGAN),
    }


READY = a_condition("Ready", "True", "Serving")
CRASHING = a_condition("Degraded", "True", "EngineCrashing", "exit code 1")


def a_model(*conditions: dict[str, str], name: str = "qwen3", **status: Any) -> dict[str, Any]:
    found = {"observedGeneration": 1, "conditions": list(conditions), **status}
    return a_raw_model(name, status=found)


def well(name: str = "qwen3") -> dict[str, Any]:
    speculation = {
        "state": "Active",
        "scheduleSummary": "4:5,8:3,16:2,32:1,*:0",
        "appliedReplicas": 2,
        "acceptanceRate": "0.71",
        "speedup": {
            "ratio": "1.38",
            "low": "1.31",
            "high": "1.45",
            "reference": "Probe",
            "measuredAt": "2026-01-01T11:56:00Z",
        },
    }
    return a_model(READY, name=name, reason="Serving", serving="2/2", speculation=speculation)


def of_one(raw: dict[str, Any], width: int = 200) -> str:
    return printed(screen_of_one(on_call(raw, NOW), NOW), width)


@pytest.mark.parametrize(
    ("condition", "urgency"),
    [
        (CRASHING, Urgency.PERSON),
        (a_condition("MetricsAvailable", "False", "PrometheusUnreachable"), Urgency.PERSON),
        (a_condition("ActuationConverged", "False", "EngineUnreachable"), Urgency.PERSON),
        (a_condition("DrafterHealthy", "False", "AcceptanceCollapsed"), Urgency.PERSON),
        (a_condition("TuningActive", "True", "AnnotationRefused"), Urgency.PERSON),
        (a_condition("Ready", "False", "AReasonOfANewerOperator"), Urgency.PERSON),
        (a_condition("Ready", "False", "RollingOut"), Urgency.PASSES),
        (a_condition("Progressing", "True", "RollingOut"), Urgency.PASSES),
        (a_condition("LaunchOptimal", "Unknown", "CanaryRunning"), Urgency.PASSES),
        (a_condition("TuningActive", "False", "Paused"), Urgency.NOTE),
        (a_condition("Ready", "False", "ScaledToZero"), Urgency.NOTE),
        (a_condition("SpeculationEffective", "Unknown", "WithinNoise"), Urgency.NOTE),
    ],
)
def test_a_condition_says_whom_it_wants(condition: dict[str, str], urgency: Urgency) -> None:
    (finding,) = on_call(a_model(condition), NOW).findings
    assert finding.urgency is urgency


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("ActuationConverged", "PartiallyApplied"),
        ("ActuationConverged", "EngineUnreachable"),
        ("MetricsAvailable", "NoSeries"),
        ("MetricsAvailable", "PrometheusUnreachable"),
    ],
)
def test_what_the_next_tick_tries_again_needs_a_person_after_two_minutes(kind: str, reason: str) -> None:
    raw = a_model(a_condition(kind, "False", reason))
    urgencies = [on_call(raw, BEGAN + timedelta(seconds=age)).findings[0].urgency for age in (0, 119, 120)]
    assert urgencies == [Urgency.PASSES, Urgency.PASSES, Urgency.PERSON]


@pytest.mark.parametrize(
    "condition",
    [READY, a_condition("Progressing", "False", "Complete"), a_condition("TuningActive", "True", "Tuning")],
)
def test_what_is_as_it_should_be_is_no_finding(condition: dict[str, str]) -> None:
    assert on_call(a_model(condition), NOW).findings == ()


@pytest.mark.parametrize("kind", list(ConditionType))
def test_every_reason_is_read(kind: ConditionType) -> None:
    for reason in kind.reasons:
        assert len(on_call(a_model(a_condition(kind, "Unknown", reason)), NOW).findings) == 1


def test_a_model_without_any_report_needs_a_person_who_looks_for_an_operator() -> None:
    text = of_one(a_raw_model("qwen3"))
    assert "Needs a person" in text
    assert "`outrider doctor`" in text


def behind(*writes: dict[str, Any], created: datetime | None = None) -> dict[str, Any]:
    """A model whose last change no operator has read."""
    raw = well()
    raw["metadata"] |= {"generation": 3, "managedFields": list(writes)}
    if created is not None:
        raw["metadata"]["creationTimestamp"] = rfc3339(created)
    return raw


def a_write(field: str, time: datetime) -> dict[str, Any]:
    return {"manager": "kubectl", "time": rfc3339(time), "fieldsV1": {field: {}}}


@pytest.mark.parametrize(
    ("seconds", "urgency"), [(0, Urgency.PASSES), (119, Urgency.PASSES), (120, Urgency.PERSON)]
)
def test_a_change_of_the_spec_that_no_operator_reads_needs_a_person_after_two_minutes(
    seconds: int, urgency: Urgency
) -> None:
    raw = behind(a_write("f:spec", BEGAN), created=BEGAN - timedelta(days=30))
    (finding,) = on_call(raw, BEGAN + timedelta(seconds=seconds)).findings
    assert (finding.reason, finding.urgency, finding.since) == ("Behind", urgency, BEGAN)


@pytest.mark.parametrize(
    "raw",
    [
        behind(a_write("f:spec", NOW - timedelta(days=9)), a_write("f:spec", BEGAN)),
        behind(a_write("f:spec", BEGAN), a_write("f:status", NOW), a_write("f:metadata", NOW)),
        behind({"manager": "without a time", "fieldsV1": {"f:spec": {}}}, created=BEGAN),
        behind(created=BEGAN),
    ],
    ids=["the newest", "not those of other fields", "without a time the creation", "else the creation"],
)
def test_the_age_of_a_spec_is_that_of_its_last_write(raw: dict[str, Any]) -> None:
    assert on_call(raw, NOW).findings[0].since == BEGAN


def test_a_spec_that_no_operator_reads_leads_to_the_installation() -> None:
    text = of_one(behind(created=BEGAN))
    assert "Operator Behind, 4m: No operator reconciles this model" in text
    assert "is an operator installed, and does it watch this namespace?" in text


def test_a_spec_without_any_time_passes() -> None:
    (finding,) = on_call(behind(), NOW).findings
    assert (finding.urgency, finding.since) == (Urgency.PASSES, None)


def test_a_status_that_cannot_be_read_hides_no_other_model() -> None:
    broken = a_raw_model("broken", status={"replicas": "many"})
    text = printed(screen_of_all([on_call(broken, NOW), on_call(well(), NOW)], NOW))
    assert "default/qwen3" in text
    assert "default/broken needs a person" in text
    assert "replicas" in text


def test_only_the_status_is_read_so_a_spec_of_another_version_does_not_matter() -> None:
    raw = {**well(), "spec": {"of": "another version"}}
    assert on_call(raw, NOW).findings == ()


def test_the_screen_begins_with_what_rules_and_what_it_is_worth() -> None:
    lines = of_one(well()).splitlines()
    assert lines[0] == "default/qwen3: Serving, 2/2 pods"
    assert lines[1] == "  schedule    1-4:5 5-8:3 9-16:2 17-32:1 33+:0, on 2 pods (batch size: K)"
    assert "1.38 x K=0, 95 % 1.31 to 1.45, 4m ago" in lines[3]
    assert lines[-1] == "Nothing needs a person."


def test_what_needs_a_person_comes_before_what_passes_by_itself() -> None:
    text = of_one(a_model(a_condition("Ready", "False", "RollingOut"), CRASHING))
    assert text.index("EngineCrashing, 4m: exit code 1") < text.index("RollingOut")
    assert "docs/" not in text


def test_a_finding_says_what_to_do_below_it_on_both_screens() -> None:
    found = on_call(a_model(a_condition("Degraded", "True", "ImagePullFailed", "no such image")), NOW)
    (do,) = (finding.do for finding in found.findings)
    assert do
    for screen in (screen_of_one(found, NOW), screen_of_all([found], NOW)):
        lines = printed(screen, width=300).splitlines()
        index = lines.index("  Degraded ImagePullFailed, 4m: no such image")
        assert lines[index + 1] == f"    do: {do}"


def test_the_table_of_all_models_fits_eighty_columns() -> None:
    long = on_call(well("a-name-as-long-as-names-may-be-so-that-children-have-it"[:52]), NOW)
    lines = printed(screen_of_all([long, on_call(well(), NOW)], NOW)).splitlines()
    assert max(map(len, lines)) <= 80
    row = " ".join(lines[next(i for i, line in enumerate(lines) if line.startswith("default/qwen3")) :])
    assert row.startswith("default/qwen3")
    assert {"Serving", "2/2", "1-4:5", "33+:0", "1.38", "0.71"} <= set(row.split())


def test_words_of_others_are_no_markup() -> None:
    hostile = a_model({**CRASHING, "message": "[red]x[/] [/bold]"}, serving="[red]1[/red]")
    assert "[red]x[/] [/bold]" in of_one(hostile)
    assert "[red]1[/red]" in printed(screen_of_all([on_call(hostile, NOW)], NOW))


def status_of_all(cluster: Kubernetes, folder: Path, **environment: str) -> Result:
    with serving(cluster, folder) as found:
        return CliRunner().invoke(app, ["status", "-A"], env={**found, **environment})


def in_namespaces(*names: str) -> Kubernetes:
    """An account that has Roles in these namespaces, and no right to list all of them."""
    path = "/apis/outrider.dev/v1alpha1/namespaces/{}/speculativemodels"
    models = {name: a_raw_model("m", namespace=name, status=well()["status"]) for name in names}
    cluster = Kubernetes({path.format(name): a_list(model) for name, model in models.items()})
    cluster.refused = lambda _, asked: asked not in cluster.objects
    return cluster


def test_in_the_operators_pod_all_namespaces_are_those_that_it_watches(tmp_path: Path) -> None:
    result = status_of_all(in_namespaces("a", "b"), tmp_path, OUTRIDER_WATCH_NAMESPACES="a b")
    assert result.exit_code == 0, result.output
    assert {"a/m", "b/m"} <= set(result.output.split())


def test_with_the_right_to_list_all_the_operators_variable_hides_no_namespace(tmp_path: Path) -> None:
    cluster = Kubernetes({ALL: a_list(well(), a_raw_model("m", namespace="b", status=well()["status"]))})
    result = status_of_all(cluster, tmp_path, OUTRIDER_WATCH_NAMESPACES="b")
    assert {"default/qwen3", "b/m"} <= set(result.output.split())


def test_without_the_right_to_list_all_it_says_to_name_a_namespace(tmp_path: Path) -> None:
    result = status_of_all(in_namespaces("a"), tmp_path, OUTRIDER_WATCH_NAMESPACES="")
    told = f"{ALL} is forbidden. Name a namespace with -n, because this account may not list all namespaces."
    assert (result.exit_code, result.output) == (2, f"outrider status: {told}\n")


def test_a_watched_namespace_that_is_refused_is_named(tmp_path: Path) -> None:
    result = status_of_all(in_namespaces("a"), tmp_path, OUTRIDER_WATCH_NAMESPACES="a gone")
    right = "Ask for the verb list on speculativemodels.outrider.dev in gone"
    assert result.exit_code == 2
    assert f"{right}, or name another namespace with -n." in result.output


async def test_a_missing_right_in_one_namespace_is_named() -> None:
    async with a_cluster(refusal(403, "speculativemodels is forbidden")) as (cluster, _):
        with pytest.raises(CommandError, match=r"forbidden. Ask for the verb list .* in default"):
            await look(cluster, "default", Question(None, ClusterChoice(), everywhere=False))


async def test_the_right_to_list_is_enough_for_one_model() -> None:
    forbidden = refusal(403, "speculativemodels is forbidden")
    async with a_cluster(forbidden, answer(a_list(well("b")))) as (cluster, server):
        (found,) = await look(cluster, "default", Question("b", ClusterChoice(), everywhere=False))
        assert found.name == "b"
        assert server.asked[-1].split("?")[1].startswith("fieldSelector=metadata.name")


async def test_without_the_rights_to_get_and_to_list_the_first_refusal_is_the_answer() -> None:
    async with a_cluster(refusal(403, "cannot get"), refusal(403, "cannot list")) as (cluster, _):
        with pytest.raises(CommandError, match="cannot get"):
            await look(cluster, "default", Question("b", ClusterChoice(), everywhere=False))


async def test_models_come_by_namespace_and_name() -> None:
    async with a_cluster(answer(a_list(well("b"), well("a")))) as (cluster, server):
        found = await look(cluster, "default", Question(None, ClusterChoice(), everywhere=True))
        assert [model.name for model in found] == ["a", "b"]
        assert server.asked == [f"GET {ALL}?limit=128"]


async def test_an_api_server_that_falls_silent_is_told_and_the_last_look_stays() -> None:
    seen: list[tuple[Models, str | None]] = []
    models: Models = (on_call(well(), NOW),)
    looks: list[Models | CommandError] = [models, CommandError("silent"), models]

    async def next_look() -> tuple[OnCall, ...]:
        found = looks.pop(0)
        if isinstance(found, CommandError):
            raise found
        return found

    async def again() -> bool:
        return bool(looks)

    await follow(next_look, lambda *shown: seen.append(shown), again)
    assert seen == [(models, None), (models, "silent"), (models, None)]


@pytest.mark.parametrize(("raw", "code"), [(well(), 0), (a_model(CRASHING), 1)])
def test_the_exit_code_tells_whether_somebody_has_to_get_up(
    tmp_path: Path, raw: dict[str, Any], code: int
) -> None:
    with serving(Kubernetes({f"{HERE}/qwen3": raw}), tmp_path) as environment:
        assert CliRunner().invoke(app, ["status", "qwen3"], env=environment).exit_code == code


def test_json_has_the_status_and_what_was_found(tmp_path: Path) -> None:
    with serving(Kubernetes({HERE: a_list(a_model(CRASHING))}), tmp_path) as environment:
        result = CliRunner().invoke(app, ["status", "--json"], env=environment)
    (model,) = json.loads(result.stdout)["models"]
    assert model["needsAPerson"] is True
    assert model["findings"][0]["reason"] == "EngineCrashing"
    assert model["findings"][0]["do"]
    assert model["status"]["conditions"][0]["message"] == "exit code 1"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["gone"], "there is no SpeculativeModel default/gone; `kubectl get specmodel -A` lists all."),
        (["gone", "-A"], "give a NAME or --all-namespaces, not both."),
    ],
)
def test_what_cannot_be_shown_is_one_line_and_exit_code_2(
    tmp_path: Path, words: list[str], told: str
) -> None:
    with serving(Kubernetes(), tmp_path) as environment:
        result = CliRunner().invoke(app, ["status", *words], env=environment)
    assert (result.exit_code, result.output) == (2, f"outrider status: {told}\n")


def test_without_models_the_next_step_is_named(tmp_path: Path) -> None:
    with serving(Kubernetes({HERE: a_list()}), tmp_path) as environment:
        result = CliRunner().invoke(app, ["status"], env=environment)
    assert "`outrider plan`" in result.output
    assert result.exit_code == 0
