"""``outrider render``: what it prints is what the planner makes, and it refuses what admission refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from outrider.api.resource import SpeculativeModel
from outrider.cli.main import app
from outrider.cli.render import KEYS
from outrider.plan import PlanSettings, plan
from tests.unit.api.admission_cases import CASES, AdmissionCase, base_manifest
from tests.unit.cli import render_golden
from tests.unit.plan import golden

REFUSED = [case for case in CASES if case.refused is not None and case.patch.get("kind") is None]
PLANNED = [case for case in golden.cases() if case != "unsupported"]


def render(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, ["render", *arguments], input=text)


def written(folder: Path, *manifests: object) -> str:
    path = folder / "model.yaml"
    path.write_text(yaml.safe_dump_all(manifests))
    return str(path)


def documents(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.stderr
    return list(yaml.safe_load_all(result.stdout))


@pytest.mark.parametrize("example", render_golden.EXAMPLES)
def test_what_is_printed_is_the_golden_text(example: str) -> None:
    assert render_golden.printed(example) == render_golden.expected(example)


@pytest.mark.parametrize("case", PLANNED)
def test_the_children_are_those_of_the_planner(case: str) -> None:
    """Of a model that a cluster knows, so that its owner has a UID."""
    printed = documents(render(str(golden.FOLDER / case / "in.yaml")))
    wanted = plan(golden.read_model(case), settings=PlanSettings(), keys=KEYS).children
    assert printed == yaml.safe_load(yaml.safe_dump(list(wanted)))


def test_without_a_uid_there_is_no_owner(tmp_path: Path) -> None:
    printed = documents(render(written(tmp_path, base_manifest())))
    assert not any("ownerReferences" in child["metadata"] for child in printed)


def test_every_model_of_a_file_is_rendered_and_nothing_else(tmp_path: Path) -> None:
    first, second = base_manifest(), base_manifest()
    second["metadata"] = {"name": "other"}
    path = written(tmp_path, first, {"kind": "Secret"}, second)
    deployments = [child for child in documents(render(path)) if child["kind"] == "Deployment"]
    assert [child["metadata"]["name"] for child in deployments] == ["qwen", "other"]


def test_the_models_of_a_list_of_kubectl_are_rendered_and_nothing_else() -> None:
    first, second = base_manifest(), base_manifest()
    second["metadata"] = {"name": "other"}
    shown = {"apiVersion": "v1", "kind": "List", "items": [first, {"kind": "Secret"}, second]}
    printed = documents(render("-", text=yaml.safe_dump(shown)))
    assert [child["metadata"]["name"] for child in printed if child["kind"] == "Deployment"] == [
        "qwen",
        "other",
    ]


def test_an_empty_list_holds_no_model() -> None:
    result = render("-", text="{apiVersion: v1, kind: List, items: []}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "holds no SpeculativeModel" in result.stderr


def test_a_model_without_a_namespace_gets_the_one_that_is_asked_for(tmp_path: Path) -> None:
    first, second = base_manifest(), base_manifest()
    second["metadata"] = {"name": "other"}
    printed = documents(render(written(tmp_path, first, second), "-n", "llm"))
    assert {child["metadata"]["namespace"] for child in printed if child["kind"] == "Service"} == {
        "default",
        "llm",
    }


def test_an_object_as_the_cluster_shows_it_is_read_from_standard_input() -> None:
    manifest = base_manifest() | {"status": {"replicas": 1}}
    shown = yaml.safe_dump(manifest | {"metadata": {"name": "qwen", "managedFields": [], "uid": "u-1"}})
    assert documents(render("-", text=shown))[0]["metadata"]["ownerReferences"][0]["uid"] == "u-1"


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_what_admission_refuses_is_refused_in_one_line(case: AdmissionCase, tmp_path: Path) -> None:
    result = render(written(tmp_path, case.manifest))
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("outrider render: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kind: Service", "holds no SpeculativeModel"),
        ("{", "is not YAML"),
        ("kind: SpeculativeModel", "metadata"),
        ("kind: SpeculativeModel\nmetadata: many", "metadata"),
    ],
)
def test_what_is_no_model_is_refused_with_a_line_for_each_mistake(text: str, told: str) -> None:
    result = render("-", text=text)
    assert result.exit_code == 2
    assert told in result.stderr
    assert all(line.startswith("outrider render: -") for line in result.stderr.splitlines())


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    result = render(str(tmp_path / "none.yaml"))
    assert result.exit_code == 2
    assert "there is no file" in result.stderr


def test_what_the_planner_cannot_carry_out_is_told_with_its_reason() -> None:
    result = render(str(golden.FOLDER / "unsupported" / "in.yaml"))
    assert result.exit_code == 2
    assert result.stderr.startswith("outrider render: old: Unsupported: vLLM 0.34.0")


PODS = ("Deployment", "LeaderWorkerSet", "Job")


def test_the_examples_can_be_rendered() -> None:
    for path in (render_golden.ROOT / "examples").glob("*.yaml"):
        objects = yaml.safe_load_all(path.read_text())
        models = [
            SpeculativeModel.model_validate(raw) for raw in objects if raw["kind"] == "SpeculativeModel"
        ]
        # What is to be downloaded first is a Job in place of the Deployment.
        carried_out = [c for c in documents(render(str(path))) if c["kind"] in PODS]
        assert len(carried_out) == len(models)
