"""Mistakes in commands, options and arguments: each gets one line that says what to write instead."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

import typer
from typer.core import TyperGroup

from outrider.api.mistakes import did_you_mean
from outrider.cli.common.output import CommandError, ExitCode, say

_PROGRAM = "outrider"
_WORDS = (
    (r"Input should be a valid integer.*", "write a whole number"),
    (r"Input should be a valid number.*", "write a number"),
    (r"Input should be greater than or equal to (.+)", r"write at least \1"),
    (r"Input should be less than or equal to (.+)", r"write at most \1"),
    (r"Input should be greater than (.+)", r"write more than \1"),
    (r"Value error, .* is not one of (.+)", r"write one of \1"),
)
"""What pydantic says of a value -> what to write."""


class OneLineGroup(TyperGroup):
    """A group of commands that answers a mistake with one line on standard error, without a usage text."""

    keeps_tracebacks = ("run",)
    """Commands whose log is read later by others, who need the place of an error of the system."""
    takes_command_lines = ("import",)
    """Commands that read another program's command line behind ``--``."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command that ``args`` name; with ``standalone_mode``, end the process afterwards."""
        words = list(sys.argv[1:] if args is None else args)
        command = words[0] if words and words[0] in self.commands else ""
        if not standalone_mode:
            return super().main(words, prog_name, complete_var, False, windows_expand_args, **extra)
        try:
            code = super().main(words, prog_name, complete_var, False, windows_expand_args, **extra)
        except typer.Abort:
            typer.echo("Aborted.", err=True)
            sys.exit(ExitCode.CANNOT)
        except typer.TyperException as error:
            say(command, self._complaint(error, command, words))
            sys.exit(error.exit_code)
        except CommandError as error:
            for line in error.lines:
                say(command, line)
            sys.exit(ExitCode.CANNOT)
        except OSError as error:
            if command in self.keeps_tracebacks:
                raise
            _close_output()
            say(command, _of_the_system(error))
            sys.exit(ExitCode.CANNOT)
        sys.exit(code if isinstance(code, int) else ExitCode.FINE)

    def _complaint(self, error: typer.TyperException, command: str, words: Sequence[str]) -> str:
        options = sorted(self._options(command))
        help_text = f"`{' '.join(filter(None, (_PROGRAM, command, '--help')))}`"
        unknown = getattr(error, "option_name", None)
        parameter = getattr(error, "param", None)
        if unknown is not None and "No such option" in error.message:
            near = did_you_mean(unknown, options)
            if command in self.takes_command_lines and not words[1].startswith("-"):
                near = f"write -- before the command line, as in `{_PROGRAM} {command} -- {words[1]} ...`; "
            return f"there is no option {unknown}; {near}{help_text} lists all options"
        if not command and words and not words[0].startswith("-"):
            near = did_you_mean(words[0], self.commands)
            return f"there is no command {words[0]}; {near}{help_text} lists all commands"
        if parameter is not None:
            return _about(parameter, error, words, help_text)
        message = error.message.rstrip(".").replace("'", "")
        return f"{message[:1].lower()}{message[1:]}; {help_text} says what it takes"

    def _options(self, command: str) -> Iterable[str]:
        found = self.commands[command] if command else self
        return (option for parameter in found.params for option in parameter.opts if option.startswith("-"))


def _of_the_system(error: OSError) -> str:
    why = error.strerror or str(error)
    if error.filename is None:
        return f"input or output failed: {why}"
    return f"{error.filename} cannot be used: {why}; name another file"


def _close_output() -> None:
    """Drop what standard output still holds: a full disk would refuse it again when the process ends."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        sys.stdout = StringIO()


def _about(parameter: Any, error: typer.TyperException, words: Sequence[str], help_text: str) -> str:
    is_option = parameter.opts[0].startswith("-")
    name = parameter.opts[0] if is_option else (parameter.metavar or parameter.name.upper())
    if type(error).__name__ == "MissingParameter":
        return f"{name} is missing; {help_text} says what it takes"
    given = _given(parameter.opts, words) if is_option else None
    remedy = error.message
    for pattern, plain in _WORDS:
        remedy = re.sub(pattern, plain, remedy, count=1, flags=re.DOTALL)
    return f"{name}{'' if given is None else f' is {given}'}: {remedy.rstrip('.').replace(chr(39), '')}"


def _given(names: Sequence[str], words: Sequence[str]) -> str | None:
    """The last value that follows one of these options."""
    found = None
    for word, after in zip(words, [*words[1:], None], strict=True):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else after
    return found
