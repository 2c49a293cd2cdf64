"""Workflows run what make runs, with the versions of the set-up, few rights, and pinned actions."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.environment.place import HELM, UV
from tests.unit.release.kit import FILES, JOBS, ROOT, WORKFLOWS, steps

PUBLISHED = ("packages", "operator-image", "plugin-image", "engine-images", "chart")

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
each_job = pytest.mark.parametrize(("workflow", "name"), JOBS)


def scripts() -> Iterator[tuple[str, str]]:
    for workflow, job in JOBS:
        for step in steps(workflow, job):
            if "run" in step:
                yield f"{workflow} {job}", step["run"]


def actions(workflow: str, job: str) -> list[dict[str, Any]]:
    """What the steps that attest are given."""
    return [
        step["with"] for step in steps(workflow, job) if step.get("uses", "").startswith("actions/attest@")
    ]


def test_there_are_workflows() -> None:
    assert {"test", "cluster", "release"} <= WORKFLOWS.keys()


@each_file
def test_every_action_is_pinned_by_its_commit_and_says_its_version(path: Path) -> None:
    used = re.findall(r"uses: (?!\./)(.+)$", path.read_text(), re.MULTILINE)

    assert used
    assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)] == []


@each_file
def test_a_workflow_may_read_and_a_job_says_what_more_it_may(path: Path) -> None:
    assert WORKFLOWS[path.stem]["permissions"] == {"contents": "read"}


@each_job
def test_the_token_is_not_left_in_the_checkout(workflow: str, name: str) -> None:
    for step in steps(workflow, name):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize(("job", "script"), list(scripts()))
def test_a_script_is_one_and_takes_what_it_is_given_from_its_environment(job: str, script: str) -> None:
    parsed = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)

    assert parsed.returncode == 0, parsed.stderr
    assert "${{" not in script, f"{job}: an expression in a script runs whatever it holds"


def test_the_checks_are_those_of_make() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^check-(?:types|rest):.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    wanted = [f"uv run --frozen {command}" for command in re.findall(r"\$\(RUN\) (.+)", "".join(targets))]

    assert len(targets) == 2
    run = [step["run"] for step in steps("test", "check") if "uv run" in step.get("run", "")]
    assert sorted(run) == sorted(wanted)


def test_tools_have_the_versions_of_the_set_up() -> None:
    texts = [path.read_text() for path in FILES]

    assert {found for text in texts for found in re.findall(r'\{version: "([\d.]+)"', text)} == {UV}
    assert {found for text in texts for found in re.findall(r"helm/v4/cmd/helm@(\S+)", text)} == {HELM}


def test_there_is_an_engine_image_for_every_supported_vllm() -> None:
    jobs = WORKFLOWS["release"]["jobs"]

    assert (
        jobs["engine-images"]["strategy"]["matrix"]["vllm"] == "${{ fromJSON(needs.version.outputs.vllm) }}"
    )
    assert any("vllm=$(python3 -c" in step.get("run", "") for step in jobs["version"]["steps"])


@pytest.mark.parametrize("job", PUBLISHED)
def test_what_is_published_has_signed_provenance(job: str) -> None:
    assert any("sbom-path" not in given for given in actions("release", job))


@pytest.mark.parametrize("job", PUBLISHED)
def test_only_what_signs_has_an_identity(job: str) -> None:
    assert WORKFLOWS["release"]["jobs"][job]["permissions"]["id-token"] == "write"


def test_nothing_is_published_before_the_tests_passed_and_the_tag_is_the_version() -> None:
    jobs = WORKFLOWS["release"]["jobs"]

    def needed(name: str) -> set[str]:
        given = jobs[name].get("needs", [])
        direct = {given} if isinstance(given, str) else set(given)
        return direct | {further for each in direct for further in needed(each)}

    assert all({"version", "test"} <= needed(name) for name in (*PUBLISHED, "index", "notes"))
