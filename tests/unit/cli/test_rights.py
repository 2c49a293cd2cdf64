"""What ``bench``, ``sweep`` and ``verify`` say where they may not hold a table, or where there is no model.

Each of them holds tables by annotations of an override, and none of these may be left behind.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from outrider.cli.main import app
from tests.unit.cli.kit import PATH, Tuned
from tests.unit.cli.kubernetes import Body, Kubernetes, serving

COMMANDS = ["bench", "sweep", "verify"]
NO_RIGHT = (
    "you may not patch SpeculativeModel default/m, and an override is an annotation. "
    "Ask for the verb patch on speculativemodels.outrider.dev in default."
)


def invoked(command: str, cluster: Kubernetes, folder: Path) -> Result:
    """On model `m`. GuideLLM is a program that leaves a file `load` and no result."""
    script = folder / "guidellm.py"
    script.write_text(f"import pathlib\npathlib.Path({str(folder / 'load')!r}).touch()\n")
    guidellm = ["--guidellm", f"{sys.executable} {script}"]
    words = {"bench": guidellm, "sweep": [*guidellm, "--save", str(folder / "table.json")], "verify": []}
    with serving(cluster, folder) as environment:
        arguments = [command, "m", "--yes", "--url", "http://127.0.0.1:1", *words[command]]
        return CliRunner().invoke(app, arguments, env=environment)


def may_not_patch(cluster: Kubernetes) -> None:
    """As an API server has it: it says so when it is asked, and when it is done."""

    def allowed(question: Body) -> bool:
        return bool(question["resourceAttributes"]["verb"] != "patch")

    cluster.review = allowed
    cluster.refused = lambda method, path: method == "PATCH" and path == PATH


@pytest.mark.parametrize("command", COMMANDS)
def test_without_the_right_to_patch_it_is_one_line_before_any_load(command: str, tmp_path: Path) -> None:
    cluster = Tuned()
    may_not_patch(cluster)
    result = invoked(command, cluster, tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"outrider {command}: {NO_RIGHT}\n"
    assert (cluster.written, cluster.annotations) == ([], {})
    assert {file.name for file in tmp_path.iterdir()} == {"kubeconfig", "guidellm.py"}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_right_is_asked_for_of_this_very_model(command: str, tmp_path: Path) -> None:
    cluster, asked = Tuned(), list[Body]()

    def denied(question: Body) -> bool:
        asked.append(question["resourceAttributes"])
        return False

    cluster.review = denied
    invoked(command, cluster, tmp_path)
    assert asked == [
        {
            "group": "outrider.dev",
            "resource": "speculativemodels",
            "verb": "patch",
            "namespace": "default",
            "name": "m",
        }
    ]


@pytest.mark.parametrize("questions", ["are refused", "are answered with yes"])
def test_a_write_that_is_refused_all_the_same_is_told_and_nothing_is_left(
    questions: str, tmp_path: Path
) -> None:
    cluster = Tuned()
    refused = ("PATCH",) if questions == "are answered with yes" else ("PATCH", "POST")
    cluster.refused = lambda method, _: method in refused
    result = invoked("verify", cluster, tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"outrider verify: {PATH} is forbidden. Read the message: admission policy, quota, an unknown "
        "field, or a missing RBAC verb.\n"
    )
    assert (cluster.written, cluster.annotations) == ([], {})


@pytest.mark.parametrize("command", COMMANDS)
def test_for_a_model_that_does_not_exist_it_is_one_line(command: str, tmp_path: Path) -> None:
    cluster = Kubernetes()
    result = invoked(command, cluster, tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"outrider {command}: there is no SpeculativeModel default/m; `kubectl get specmodel -A` lists all.\n"
    )
    assert cluster.written == []
    assert {file.name for file in tmp_path.iterdir()} == {"kubeconfig", "guidellm.py"}
