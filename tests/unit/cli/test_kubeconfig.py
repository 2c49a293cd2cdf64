"""A kubeconfig that leads to no cluster ends a command with one line and exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from outrider.cli.main import app
from tests.unit.cli.kubernetes import a_kubeconfig

REMEDY = "Set KUBECONFIG, or use --kubeconfig.\n"


def status(*words: str, kubeconfig: str = "/none") -> Result:
    return CliRunner().invoke(app, ["status", *words], env={"KUBECONFIG": kubeconfig})


def refused(result: Result, told: str) -> bool:
    """The whole answer is one line that begins like this, and says what to do."""
    return (
        (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        and result.stderr.startswith(f"outrider status: {told}")
        and result.stderr.endswith(REMEDY)
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", ". "),
        (b"hello", ". "),
        (b"- 1", ". "),
        (b"{clusters: 1, contexts: 2, users: 3, current-context: x}", ". "),
        (b"[1", ": line 1: "),
        (b"\x00\xff", ": 'utf-8' codec can't decode"),
    ],
)
def test_a_file_with_other_content_is_named(content: bytes, why: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(content)
    told = f"no cluster to ask: {file} is not a kubeconfig{why}"
    assert refused(status(kubeconfig=str(file)), told)
    assert refused(status("--kubeconfig", str(file)), told)
    assert refused(status("--kubeconfig", str(file), "--context", "prod"), told)


@pytest.mark.parametrize("variable", [None, ""])
@pytest.mark.parametrize("words", [(), ("--context", "prod")])
def test_without_a_kubeconfig_the_missing_file_is_named(
    variable: str | None,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    told = f"no cluster to ask: there is no file {tmp_path / '.kube' / 'config'}. "
    result = CliRunner().invoke(app, ["status", *words], env={"KUBECONFIG": variable})
    assert refused(result, told)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("variable", [None, ""])
def test_an_empty_variable_leaves_the_file_in_the_home(
    variable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".kube" / "config"
    file.parent.mkdir()
    file.write_text("hello")
    result = CliRunner().invoke(app, ["status"], env={"KUBECONFIG": variable})
    assert refused(result, f"no cluster to ask: {file} is not a kubeconfig. ")


@pytest.mark.parametrize("words", [(), ("--kubeconfig", "/dev/null")])
def test_the_empty_device_is_no_kubeconfig(words: tuple[str, ...]) -> None:
    told = "no cluster to ask: /dev/null is not a kubeconfig. "
    assert refused(status(*words, kubeconfig="/dev/null"), told)


def test_a_context_without_its_user_ends_in_one_line(tmp_path: Path) -> None:
    """The client library then asks without credentials, and no API server answers that."""
    file = tmp_path / "config"
    file.write_text(json.dumps(a_kubeconfig("http://127.0.0.1:1", namespace="default") | {"users": []}))
    result = status(kubeconfig=str(file))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.endswith("Check the kubeconfig.\n")
