"""The text that every machine with Python has: code and prose out of the standard library.

Code is `ast.unparse`d without docstrings and comments, so that a drafter trained on it
never sees English. Prose is pydoc's topics and the docstrings. A tenth of each is held out.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HELD_OUT_SHARE = 0.1
"""Share of the documents that training never sees; the demo's prompts come from it."""
MINIMUM_CHARACTERS = 400
SKIPPED_FOLDERS = frozenset({"site-packages", "dist-packages", "test", "tests", "idlelib", "encodings", "pydoc_data"})


@dataclass(frozen=True, slots=True)
class Document:
    """One piece of text. ``name`` is stable between Python patch releases."""

    name: str
    text: str

    @property
    def held_out(self) -> bool:
        """Whether training leaves this document out; a function of the name alone."""
        digest = hashlib.sha256(self.name.encode()).digest()
        return int.from_bytes(digest[:4], "big") < HELD_OUT_SHARE * 2**32


def code_documents() -> Iterator[Document]:
    """Every module of the standard library in canonical form, without docstrings and comments."""
    for name, tree in _modules():
        text = ast.unparse(_without_docstrings(tree)) + "\n"
        if len(text) >= MINIMUM_CHARACTERS:
            yield Document(name, text)


def prose_documents() -> Iterator[Document]:
    """pydoc's topics, then the docstrings of each module as one document."""
    yield from topic_documents()
    for name, tree in _modules():
        docstrings = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, DOCUMENTED)]
        text = "\n\n".join(docstring for docstring in docstrings if len(docstring) > 80)
        if len(text) >= MINIMUM_CHARACTERS:
            yield Document(name, text + "\n")


def topic_documents() -> Iterator[Document]:
    """The language reference as ``help()`` shows it."""
    from pydoc_data.topics import topics

    for key, text in sorted(topics.items()):
        if len(text) >= MINIMUM_CHARACTERS:
            yield Document(f"topic:{key}", inspect.cleandoc(text) + "\n")


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _modules() -> Iterator[tuple[str, ast.Module]]:
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if SKIPPED_FOLDERS.isdisjoint(name.parts) and not name.name.startswith("_sysconfigdata"):
            try:
                tree = ast.parse(path.read_bytes())
            except SyntaxError:  # lib2to3 carries Python 2 files
                continue
            yield name.as_posix(), tree


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree
