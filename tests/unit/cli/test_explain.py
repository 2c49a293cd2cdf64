"""``outrider explain`` as a person reads it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from outrider.api.resource import SpeculativeModel
from outrider.api.tuning import TuningMode
from outrider.cli.common.cluster import read_model
from outrider.cli.common.output import CommandError
from outrider.cli.explain.explanation import explanation
from outrider.cli.explain.untuned import why_untuned
from outrider.cli.main import app
from outrider.controller.tune.snapshot import TunerSnapshot, write_snapshot
from outrider.tuning.decision import BinEstimates, Estimate
from outrider.tuning.state import TunerState
from tests.unit.cli.kubernetes import Kubernetes, serving
from tests.unit.cluster.factories import Answer, a_cluster, answer, refusal
from tests.unit.controller.factories import a_raw_model
from tests.unit.tuning_loop.factories import a_model

MODELS = "/apis/outrider.dev/v1alpha1/namespaces/default/speculativemodels"
NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
ESTIMATES = {
    "7-12": BinEstimates(
        "7-12", 7, 12, 8.0, True, (Estimate(0, 500.0, 9.0, 4.0), Estimate(3, 566.4, 8.2, 4.0))
    ),
    "1": BinEstimates("1", 1, 1, 1.0, False, (Estimate(3, 180.0, 9.0, 2.0),)),
}
STATUS: dict[str, Any] = {
    "conditions": [
        {
            "type": "TuningActive",
            "status": "False",
            "reason": "Paused",
            "message": "The annotation holds the table in force.",
            "lastTransitionTime": "2026-01-01T11:00:00Z",
        }
    ],
    "speculation": {
        "state": "Active",
        "scheduleSummary": "12:3,*:0",
        "appliedReplicas": 2,
        "acceptanceRate": "0.71",
        "perPositionAcceptance": ["0.90", "0.60"],
        "speedup": {
            "ratio": "1.38",
            "low": "1.31",
            "high": "1.45",
            "reference": "Probe",
            "measuredAt": "2026-01-01T11:56:00Z",
        },
    },
    "decisions": [
        {
            "time": "2026-01-01T11:59:18Z",
            "from": "12:1,*:0",
            "to": "12:3,*:0",
            "reason": "BetterK",
            "message": "batch 7-12: K 1 -> 3",
            "expectedGain": "1.12",
            "measuredGain": "1.09",
        }
    ],
}


def shown(
    *,
    status: dict[str, Any] | None = None,
    estimates: dict[str, BinEstimates] | None = None,
    width: int = 160,
    **spec: Any,
) -> str:
    console = Console(file=StringIO(), width=width)
    model = SpeculativeModel.model_validate(a_raw_model("qwen3", status=status, **spec))
    console.print(explanation(model, estimates or {}, now=NOW))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_engines_that_compute_nothing_are_told_of_at_the_top() -> None:
    told = {**STATUS, "speculation": {**STATUS["speculation"], "simulated": "h100_8b"}}
    line = "simulated: engines compute nothing and sleep the step times of h100_8b"
    assert line in shown(status=told).splitlines()[:4]
    assert "simulated" not in shown(status=STATUS)


def test_it_says_how_many_engines_choose_k_at_each_step() -> None:
    loop = "2 of 2 engines choose K at each step; now K 0-5"
    status = {**STATUS, "speculation": {**STATUS["speculation"], "fastLoop": loop}}
    assert f"fast loop: {loop}; the schedule holds if it stops" in shown(status=status)
    assert "fast loop" not in shown(status=STATUS)


@pytest.mark.parametrize(("graphs", "told"), [("PIECEWISE", True), ("FULL_AND_PIECEWISE", False)])
def test_cuda_graphs_that_cost_speed_are_told_of(graphs: str, told: bool) -> None:
    status = {**STATUS, "speculation": {**STATUS["speculation"], "cudaGraphs": graphs}}
    assert ("CUDA graphs are piecewise" in shown(status=status)) is told


def row_of(text: str, word: str) -> list[str]:
    line = next(line for line in text.splitlines() if word in line)
    return [cell.strip() for cell in line.strip("│┃ ").replace("┃", "│").split("│")]


def test_the_head_says_what_rules_and_what_it_is_worth() -> None:
    text = shown(status=STATUS)
    assert "default/qwen3, tuning Auto" in text
    assert "schedule 1-12:3 13+:0, on 2 pods (batch size: K), Active" in text
    assert "speedup 1.38 x no drafter, 95 % 1.31 to 1.45, measured against Probe, 4m ago" in text
    assert "acceptance 0.71, by position 0.90 0.60" in text
    assert "TuningActive False, Paused: The annotation holds the table in force." in text


def test_each_decision_has_its_gains_and_its_reason_below() -> None:
    lines = shown(status=STATUS).splitlines()
    (at,) = (index for index, line in enumerate(lines) if line.startswith("42s ago"))
    assert lines[at] == "42s ago: 1-12:1 13+:0 -> 1-12:3 13+:0, expected +12 %, measured +9 %"
    assert lines[at + 1] == "  BetterK: batch 7-12: K 1 -> 3"


def test_a_decision_that_was_not_carried_out_is_shown_as_what_would_be_done() -> None:
    observed = {**STATUS, "decisions": [{**STATUS["decisions"][0], "would": True}]}
    assert "42s ago: would change 1-12:1 13+:0 -> 1-12:3 13+:0, expected +12 %" in shown(status=observed)


def test_a_reason_keeps_its_words_whole_where_the_terminal_is_narrow() -> None:
    long = {**STATUS, "decisions": [{**STATUS["decisions"][0], "message": "word " * 30}]}
    assert shown(status=long, width=60).count("word") == 30


def test_each_batch_bin_is_a_row_of_estimates_with_the_k_in_force_marked() -> None:
    text = shown(status=STATUS, estimates=ESTIMATES)
    assert row_of(text, "K=3") == ["batch", "K=0", "K=3", "state"]
    assert row_of(text, "calibrating") == ["1", "", "180 ± 9*", "calibrating"]
    assert row_of(text, "│ settled") == ["7-12", "500 ± 9", "566 ± 8*", "settled"]


def test_a_model_without_any_report_says_so() -> None:
    text = shown()
    assert "The operator has not reported on its speculation yet." in text
    assert "No decision has changed the schedule yet." in text
    assert "No estimates yet" in text


NGRAM = {"method": "ngram", "numSpeculativeTokens": 3}
OFF = {"tuning": {"mode": "Off"}}


@pytest.mark.parametrize(
    ("spec", "cause", "change"),
    [
        (
            {"speculation": {"method": "none"}},
            "spec.speculation.method is none",
            "choose a method that drafts",
        ),
        (
            {"speculation": {**NGRAM, **OFF}},
            "spec.speculation.tuning.mode is Off",
            "set it to Auto",
        ),
        (
            {"speculation": {"method": "suffix", "numSpeculativeTokens": 3, **OFF}},
            "its engine keeps one K with method suffix",
            "choose another spec.speculation.method",
        ),
        (
            {"speculation": {**NGRAM, **OFF}, "parallelism": {"data": 2}},
            "spec.speculation.tuning.mode is Off",
            "set it to Auto, with tuning.actuation: Rollout",
        ),
        (
            {
                "speculation": {
                    "method": "dflash",
                    "numSpeculativeTokens": 7,
                    "drafter": {"uri": "hf://a/b"},
                },
                "engine": {"image": "engine:1", "version": "0.30.0", "modelRunner": "V2"},
            },
            "its engine keeps one K",
            "do what the condition KnownIssues says",
        ),
    ],
)
def test_a_model_that_outrider_never_tunes_says_so_with_what_to_change(
    spec: dict[str, Any], cause: str, change: str
) -> None:
    text = shown(**spec)
    assert f"Outrider does not tune this model, because {cause}. To change it, {change}." in text
    assert "has not reported" not in text


@pytest.mark.parametrize(("mode", "untuned"), [("Off", True), ("Auto", False)])
def test_pods_of_another_owner_are_tuned_unless_their_mode_is_off(mode: str, untuned: bool) -> None:
    target = {"selector": {"matchLabels": {"app": "m"}}, "tuning": {"mode": mode}}
    raw = {**a_raw_model(), "spec": {"target": target}}
    why = why_untuned(SpeculativeModel.model_validate(raw))
    assert (why is not None and "spec.target.tuning.mode is Off" in why) is untuned


def test_words_of_others_are_no_markup() -> None:
    hostile = {**STATUS, "decisions": [{**STATUS["decisions"][0], "message": "[red]x[/] [/bold]"}]}
    assert "[red]x[/] [/bold]" in shown(status=hostile)


async def explained(*answers: Answer) -> dict[str, BinEstimates]:
    async with a_cluster(*answers) as (cluster, _):
        return dict((await read_model(cluster, "default", "m"))[1])


def stored(text: str) -> Answer:
    return answer({"metadata": {"name": "m-tuner"}, "data": {"state.json": text}})


def kept() -> str:
    model = a_model()
    state = TunerState.start(model.static, model.policy)
    return write_snapshot(TunerSnapshot(TuningMode.AUTO, model.static, state, ESTIMATES))


async def test_estimates_come_from_what_the_tuner_stored() -> None:
    assert await explained(answer(a_raw_model()), stored(kept())) == ESTIMATES


@pytest.mark.parametrize(
    "text", ["", "{", json.dumps({"mode": "Auto", "static": [], "state": 1, "estimates": {"1": 2}})]
)
async def test_what_cannot_be_read_of_the_tuner_is_left_out(text: str) -> None:
    assert await explained(answer(a_raw_model()), stored(text)) == {}


async def test_a_model_that_was_never_tuned_has_no_estimates() -> None:
    assert await explained(answer(a_raw_model()), refusal(404)) == {}


async def test_a_missing_model_is_named_and_the_others_can_be_found() -> None:
    with pytest.raises(CommandError, match="no SpeculativeModel default/m; `kubectl get specmodel -A`"):
        await explained(refusal(404))


async def test_a_missing_permission_says_so() -> None:
    with pytest.raises(CommandError, match=r"forbidden.*missing RBAC verb"):
        await explained(refusal(403, "speculativemodels is forbidden"))


async def test_an_unreadable_model_names_the_field() -> None:
    with pytest.raises(CommandError, match=r"spec\.replicas"):
        await explained(answer(a_raw_model(replicas="many")), refusal(404))


def test_without_a_cluster_the_command_ends_with_one_plain_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["explain", "m"], env={"KUBECONFIG": str(tmp_path / "none")})
    assert result.exit_code == 2
    assert result.output.startswith("outrider explain: no cluster to ask: ")
    assert "Set KUBECONFIG" in result.output


def test_in_a_pipe_a_long_message_stays_one_line(tmp_path: Path) -> None:
    message = "word " * 60
    status = {"conditions": [{**STATUS["conditions"][0], "message": message}]}
    objects = {f"{MODELS}/m": a_raw_model("m", status=status)}
    with serving(Kubernetes(objects), tmp_path) as environment:
        result = CliRunner().invoke(app, ["explain", "m"], env=environment)
    assert message.strip() in result.output


@pytest.mark.parametrize(("options", "namespace"), [((), "team-a"), (("-n", "prod"), "prod")])
def test_the_namespace_is_that_of_the_context_unless_one_is_given(
    tmp_path: Path, options: tuple[str, ...], namespace: str
) -> None:
    cluster = Kubernetes()
    with serving(cluster, tmp_path, namespace="team-a") as environment:
        result = CliRunner().invoke(app, ["explain", "m", *options], env=environment)
    assert f"no SpeculativeModel {namespace}/m" in result.output
    assert all(f"/namespaces/{namespace}/" in path for path in cluster.asked)


def test_json_has_the_status_and_the_estimates(tmp_path: Path) -> None:
    objects = {
        f"{MODELS}/m": a_raw_model("m", status=STATUS),
        "/api/v1/namespaces/default/configmaps/m-tuner": {"data": {"state.json": kept()}},
    }
    with serving(Kubernetes(objects), tmp_path) as environment:
        told = json.loads(CliRunner().invoke(app, ["explain", "m", "--json"], env=environment).stdout)
    assert told["status"]["speculation"]["scheduleSummary"] == "12:3,*:0"
    assert [found["label"] for found in told["estimates"]] == ["1", "7-12"]
