"""Mistakes that users type, and the whole answer to each: `mistakes.md` beside this file.

``python -m tests.unit.cli.mistakes --write`` writes the answers again; read the diff.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from typer.testing import CliRunner

from outrider.cli.main import app
from tests.unit.api.admission_cases import base_manifest, merge_patch

PAGE = Path(__file__).with_name("mistakes.md")
_SECTION = re.compile(
    r"^## (?P<name>[^\n]+)\n\n```(?P<kind>yaml|sh)\n(?P<typed>.*?)```\n\n```text\n(?P<answer>.*?)```\n",
    re.MULTILINE | re.DOTALL,
)
FILE = "model.yaml"


@dataclass(frozen=True)
class Mistake:
    """What is typed, and what is answered on standard error."""

    name: str
    kind: str
    typed: str
    answer: str

    @property
    def words(self) -> list[str]:
        """The arguments of ``outrider``."""
        return ["render", FILE] if self.kind == "yaml" else self.typed.split()[1:]

    @property
    def file(self) -> str:
        """The manifest: as typed, or the part that is typed in a manifest that is good."""
        typed = _parsed(self.typed) if self.kind == "yaml" else {}
        if typed is None or "kind" in typed:
            return self.typed
        return yaml.safe_dump(merge_patch(base_manifest(), typed), sort_keys=False)


def _parsed(text: str) -> dict[str, Any] | None:
    """None: a whole file."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    return found if isinstance(found, dict) and text.count("speculation:") < 2 else None


def mistakes() -> list[Mistake]:
    """All of the page."""
    return [Mistake(**found.groupdict()) for found in _SECTION.finditer(PAGE.read_text(encoding="utf-8"))]


@contextmanager
def _in(folder: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def answered(mistake: Mistake) -> tuple[int, str]:
    """Exit code and standard error of the command, in a folder with nothing but the manifest."""
    with TemporaryDirectory() as folder, _in(folder):
        Path(FILE).write_text(mistake.file, encoding="utf-8")
        result = CliRunner().invoke(app, mistake.words, prog_name="outrider", env={"KUBECONFIG": "none"})
    return result.exit_code, result.stderr


def _written(found: re.Match[str]) -> str:
    _, answer = answered(Mistake(**found.groupdict()))
    begin, end = found.start("answer") - found.start(), found.end("answer") - found.start()
    return found[0][:begin] + answer + found[0][end:]


if __name__ == "__main__":
    text = _SECTION.sub(_written, PAGE.read_text(encoding="utf-8"))
    if "--write" in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
