"""Shared fixtures are in the kit of a room: an imported test module would run its own fixtures elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


@pytest.mark.parametrize("folder", sorted(path.name for path in TESTS.iterdir() if path.is_dir()))
def test_no_module_imports_a_test_module(folder: str) -> None:
    for path in (TESTS / folder).rglob("*.py"):
        modules = [name for name in imported(path) if name.startswith("tests.")]
        assert not [name for name in modules if ".test_" in name], f"{path}: move what it imports into a kit"
