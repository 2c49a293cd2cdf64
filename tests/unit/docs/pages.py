"""The pages of the documentation, as their tests see them."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import yaml

ROOT = Path(__file__).resolve().parents[3]


def program_of_the_site(name: str) -> ModuleType:
    """A file of docs/.site as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / ".site" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOKS = program_of_the_site("hooks")
SITE = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))
PLACES = sorted({f"docs/{page}" for page in SITE} | {*HOOKS.ELSEWHERE, "README.md"})
"""Every page for people, by its path in the repository."""


def text_of(place: str) -> str:
    return (ROOT / place).read_text(encoding="utf-8")


def navigation() -> list[str]:
    """Pages as mkdocs.yml and the hooks name them."""
    return [*_leaves(yaml.safe_load(text_of("mkdocs.yml"))["nav"]), *HOOKS.decision_pages()]


def _leaves(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, list):
        for each in part:
            yield from _leaves(each)
    elif isinstance(part, dict):
        for each in part.values():
            yield from _leaves(each)


def anchors(markdown: str) -> set[str]:
    """Those of a page's headings, as the site and most repositories write them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", markdown, flags=re.M | re.S), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower()))
    return found


@dataclass(frozen=True)
class Block:
    """A fenced block. line: of its first line. untested: the page says so."""

    place: str
    line: int
    language: str
    lines: tuple[str, ...]
    untested: bool


def blocks(place: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page; those in a list without their indentation."""
    lines = text_of(place).splitlines()
    start: int | None = None
    for index, line in enumerate(lines):
        if not line.lstrip().startswith("```"):
            continue
        if start is None:
            start = index
            continue
        before = lines[start - 1] if start else ""
        untested = bool(re.fullmatch(r"<!-- not tested: .+ -->", before.strip()))
        indent = len(line) - len(line.lstrip())
        content = tuple(each[indent:] for each in lines[start + 1 : index])
        yield Block(place, start + 2, lines[start].strip()[3:].strip(), content, untested)
        start = None
