"""Text and prompts out of files that a user names."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TextIO

from outrider.bench.prompts import BUILT_IN
from outrider.bench.texts import Task
from outrider.cli.common.output import CommandError

STANDARD_INPUT = Path("-")
_MAX_BYTES = 10_000_000
_BYTE_ORDER_MARK = "\ufeff"
"""Which editors on Windows put before a text, and no JSON may begin with."""


def read_text(path: Path) -> str:
    """The text of a file of at most 10 MB; ``-`` for standard input."""
    try:
        if path == STANDARD_INPUT:
            return standard_input().read().removeprefix(_BYTE_ORDER_MARK)
        if path.stat().st_size > _MAX_BYTES:
            raise CommandError(f"{path} has more than {_MAX_BYTES // 1_000_000} MB; name another file")
        return path.read_text(encoding="utf-8").removeprefix(_BYTE_ORDER_MARK)
    except FileNotFoundError as error:
        raise CommandError(f"there is no file {path}{_beside(path)}") from error
    except IsADirectoryError as error:
        raise CommandError(f"{path} is a folder; name a file in it") from error
    except PermissionError as error:
        raise CommandError(f"you may not read {path}; change its mode, or name another file") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not text in UTF-8; name another file") from error
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}; name another file") from error


def standard_input() -> TextIO:
    """The stream behind ``-``.

    Raises:
        CommandError: the caller has closed it, as a shell does with ``<&-``.
    """
    if sys.stdin is None:
        raise CommandError("standard input is closed; pipe a file into it, or name a file in place of -")
    return sys.stdin


def _beside(path: Path) -> str:
    """The file that was probably meant: of the same name with another ending."""
    folder = path.parent
    found = (
        sorted(each.name for each in folder.glob(f"{path.stem}.*")) if path.stem and folder.is_dir() else []
    )
    return f"; did you mean {folder / found[0]}?" if found else "; name another file"


def prompts_of(path: Path | None, *, task: Task | None = None) -> tuple[str, ...]:
    """One prompt per line that is not blank; without a file, the prompts that come with the command.

    task: the file is Spec-Bench's, and the first turns of this task count.
    """
    if path is None:
        return BUILT_IN
    try:
        text = read_text(path)
    except CommandError as error:
        raise CommandError(f"--prompts: {error}") from error
    numbered = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if task is not None:
        found = tuple(turn for each in numbered for turn in _first_turns(path, *each, task))
        if not found:
            raise CommandError(f"{path} has no question of {task}; name Spec-Bench's question.jsonl")
        return found
    found = tuple(_prompt(path, *each) for each in numbered)
    if not found:
        raise CommandError(f"{path} has no prompt; write one per line")
    return found


def _first_turns(path: Path, number: int, line: str, task: Task) -> list[str]:
    """The first turn of a question of the task, else nothing."""
    try:
        question = json.loads(line)
        return [str(question["turns"][0])] if question["category"] in task.categories else []
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CommandError(
            f"{path}, line {number} has no category and turns; name Spec-Bench's question.jsonl"
        ) from error


def _prompt(path: Path, number: int, line: str) -> str:
    if not line.lstrip().startswith("{"):
        return line
    try:
        return str(json.loads(line)["prompt"])
    except (ValueError, KeyError) as error:
        raise CommandError(f'{path}, line {number}: write {{"prompt": "…"}}, or plain text') from error
