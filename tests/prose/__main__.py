"""Check the prose of the repository with Vale: `python -m tests.prose [PATH ...]`.

Paths are files or folders. Without one, everything is checked.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.environment.place import locate
from tests.prose.texts import Line, markdown, texts

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
COVERED = (
    "*.md", "docs/**/*.md", "charts/**/*.md", "engine_image/**/*.md", "operator/**/*.md", "examples/**/*.md",
    "operator/**/*.py", "engine_image/**/*.py", "charts/*.py", "examples/**/*.py", "docs/.site/*.py",
    "tests/**/*.py", "tests/**/*.md", "examples/**/*.yaml", "charts/outrider/values.yaml",
    "charts/outrider/files/alerts.yaml", "charts/outrider/Chart.yaml", "charts/outrider/templates/*",
    "Makefile", "pyproject.toml", "*/Dockerfile*", ".github/**/*.y*ml",
)  # fmt: skip
"""What people read, as globs from the root."""
_EXAMPLES = ROOT / "tests" / "unit" / "prose"
"""Tests of this linter, with sentences that break its rules."""
_QUOTED = 40
"""Characters of a long sentence that a finding quotes."""


@dataclass(frozen=True, order=True)
class Finding:
    """One place that breaks a rule. line: from 1."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message} [{self.rule}]"


def main(arguments: Sequence[str]) -> int:
    """Exit status: 0 when the prose is clean, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.prose", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders; default: everything")
    asked = parser.parse_args(arguments).paths
    found = check(ROOT, _below(asked) if asked else _covered())
    print("\n".join(map(str, found)) or "prose: clean")
    if found:
        print(f"{len(found)} findings; tests/prose/README.md explains the rules", file=sys.stderr)
    return 1 if found else 0


def check(root: Path, paths: Iterable[Path]) -> list[Finding]:
    """Findings in files below `root`, in the order of their places."""
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            inside = path.relative_to(root)
            extracted = texts(inside, path.read_text(encoding="utf-8"))
            name = f"{inside}.md"
            _write(Path(folder, "prose", name), extracted.prose)
            _write(Path(folder, "comments", name), extracted.comments)
        answer: Mapping[str, list[Mapping[str, object]]] = json.loads(_vale(folder))
        found = (_finding(Path(folder, name), name, row) for name, rows in answer.items() for row in rows)
        return sorted(set(found))


def _vale(folder: str) -> str:
    program = shutil.which("vale", path=f"{locate(os.environ).bin}:{os.environ['PATH']}")
    if program is None:
        raise SystemExit("vale is missing; `python3 tests/environment/up.py --until vale` builds it")
    command = [program, f"--config={HERE / 'vale.ini'}", "--output=JSON", "--no-exit", "."]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def _finding(file: Path, name: str, row: Mapping[str, object]) -> Finding:
    """One row of Vale's answer. name: of the extracted file, `prose/<path>.md` or `comments/<path>.md`."""
    line, rule, message = int(str(row["Line"])), str(row["Check"]), str(row["Message"])
    if rule == "Outrider.Length":
        text = file.read_text(encoding="utf-8").split("\n")[line - 1]
        match row["Span"]:
            case [int(first), int()]:
                message += f": {text[first - 1 :][:_QUOTED]} …"
    return Finding(name.split("/", 1)[1].removesuffix(".md"), line, rule, message)


def _write(path: Path, lines: Sequence[Line]) -> None:
    if lines:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(markdown(lines), encoding="utf-8")


def _covered() -> Iterator[Path]:
    found = (path for glob in COVERED for path in ROOT.glob(glob))
    return (path for path in found if not path.is_relative_to(_EXAMPLES))


def _below(asked: Iterable[Path]) -> Iterator[Path]:
    wanted = [path.resolve() for path in asked]
    return (path for path in _covered() if any(path.is_relative_to(one) for one in wanted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
