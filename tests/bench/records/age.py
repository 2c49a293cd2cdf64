"""Which code changed since a record was made. Comments, docstrings and layout do not count."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.bench.records.record import ROOT, Record


class UnknownCommit(ValueError):
    """The repository lacks the commit of a record; it may be a shallow clone."""


def changed_since(record: Record, root: Path = ROOT) -> tuple[str, ...]:
    """The entries of `depends` that have another meaning in the working tree than at the record's commit.

    Raises:
        UnknownCommit: the commit is not there.
    """
    if _git(root, "cat-file", "-t", record.commit) is None:
        raise UnknownCommit(
            f"{record.name}: the repository lacks commit {record.commit}; run `git fetch --unshallow`"
        )
    return tuple(each for each in record.depends if _changed(root, record.commit, each))


def _changed(root: Path, commit: str, place: str) -> bool:
    said = _git(root, "diff", "--name-only", "--no-renames", commit, "--", place)
    return any(_differs(root, commit, path) for path in _lines(said))


def _differs(root: Path, commit: str, path: str) -> bool:
    now = root / path
    before, after = _git(root, "show", f"{commit}:{path}"), now.read_text() if now.is_file() else None
    if before is None or after is None or not path.endswith(".py"):
        return before != after
    return meaning(before) != meaning(after)


def meaning(source: str) -> str:
    """The code of a module without comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [each for each in node.body if not _is_text(each)]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _lines(said: str | None) -> Sequence[str]:
    return [] if said is None else said.splitlines()


def _git(root: Path, *arguments: str) -> str | None:
    """Standard output; None where git refuses."""
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None
