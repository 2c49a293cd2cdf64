"""Commands that are interrupted, or that the system refuses something, end with one line and exit code 2."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from outrider.cli.common.output import CommandError, ExitCode, require_consent
from outrider.cli.common.usage_errors import OneLineGroup
from outrider.cli.main import app


def outrider(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def a_command_that_fails(error: BaseException, name: str = "work") -> Result:
    """A command that raises this, in a group like Outrider's own."""
    group = typer.Typer(cls=OneLineGroup, pretty_exceptions_enable=False)

    @group.callback()
    def of_several() -> None:
        """With it one command is a group, too."""

    @group.command(name)
    def fail() -> None:
        raise error

    return CliRunner().invoke(group, [name])


@pytest.mark.parametrize("end", [typer.Abort(), EOFError()])
def test_no_answer_to_a_question_is_no_verdict(end: BaseException) -> None:
    """A question makes ``typer.Abort`` of Ctrl-C, and the end of the input is Ctrl-D."""
    result = a_command_that_fails(end)
    assert result.exit_code == ExitCode.CANNOT
    assert result.stderr.strip() == "Aborted."


@pytest.mark.parametrize("file", ["none/crd.yaml", "."])
def test_an_output_file_that_cannot_be_written_is_named(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = outrider("crd", "-o", file)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith(f"outrider crd: {file} cannot be used: ")


def test_a_full_disk_behind_the_output_is_one_line() -> None:
    result = a_command_that_fails(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert result.exit_code == ExitCode.CANNOT
    assert result.stderr == "outrider work: input or output failed: No space left on device\n"


def test_the_operator_keeps_the_traceback_of_an_error_of_the_system() -> None:
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert a_command_that_fails(error, "run").exception is error


def test_a_reader_that_ends_first_is_no_failure_of_the_command() -> None:
    result = a_command_that_fails(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))
    assert (result.exit_code, result.stderr) == (1, "")


@pytest.mark.parametrize("words", [["render", "-"], ["plan", "-"], ["import", "-f", "-"]])
def test_a_closed_standard_input_is_told(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit) as ended:
        typer.main.get_command(app).main(words, prog_name="outrider")
    assert ended.value.code == ExitCode.CANNOT
    told = "standard input is closed; pipe a file into it, or name a file in place of -"
    assert capsys.readouterr().err == f"outrider {words[0]}: {told}\n"


def test_nobody_can_be_asked_at_a_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CommandError, match="Agree to that with --yes"):
        require_consent("This sends load", given=False)
