"""Prompts from a file of the user."""

from __future__ import annotations

import json
from pathlib import Path

from outrider.bench.prompts import BUILT_IN
from outrider.cli.common.files import FileRefused, read_text


class PromptsRefused(ValueError):
    """A file without prompts; the message says what is wrong."""


def prompts_of(path: Path | None) -> tuple[str, ...]:
    """One prompt per line that is not blank; without a file, the prompts that come with the command.

    Raises:
        PromptsRefused: not readable, too large, without a prompt, or JSON without the key.
    """
    if path is None:
        return BUILT_IN
    try:
        text = read_text(path)
    except FileRefused as error:
        raise PromptsRefused(f"--prompts: {error}") from error
    found = tuple(
        _prompt(path, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()
    )
    if not found:
        raise PromptsRefused(f"{path} has no prompt; write one per line")
    return found


def _prompt(path: Path, number: int, line: str) -> str:
    if not line.lstrip().startswith("{"):
        return line
    try:
        return str(json.loads(line)["prompt"])
    except (ValueError, KeyError) as error:
        raise PromptsRefused(f'{path}, line {number}: write {{"prompt": "…"}}, or plain text') from error
