"""The text that every machine with Python has: code and prose out of the standard library.

Code is `ast.unparse`d without docstrings, comments and messages, so that a drafter trained on
it never sees English. Prose is the running text of pydoc's topics and of the docstrings,
without tables, indentation and examples. A tenth of the documents of each is held out.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

HELD_OUT_SHARE = 0.1
"""Ratio of documents that training never sees; the demo's prompts come from it."""
MINIMUM_CHARACTERS = 400
"""Shortest document that is used."""
PARAGRAPH_CHARACTERS = 80
ENGLISH_SHARE = 0.92
"""Letters and spaces in a paragraph of running text; tables, signatures and doctests have fewer."""
SKIPPED_FOLDERS = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idlelib", "encodings", "pydoc_data"}
)


@dataclass(frozen=True, slots=True)
class Document:
    """One piece of text. ``name`` is stable between Python patch releases."""

    name: str
    text: str


def is_held_out(name: str) -> bool:
    """Whether training leaves a document of this name out."""
    digest = hashlib.sha256(name.encode()).digest()
    return int.from_bytes(digest[:4], "big") < HELD_OUT_SHARE * 2**32


def code_documents(*, held_out: bool) -> Iterator[Document]:
    """Modules of the standard library in canonical form, without docstrings and comments."""
    for name, tree in _modules(held_out=held_out):
        text = ast.unparse(_WithoutEnglish().visit(tree)) + "\n"
        if len(text) >= MINIMUM_CHARACTERS:
            yield Document(name, text)


def prose_documents(*, held_out: bool) -> Iterator[Document]:
    """pydoc's topics, then the docstrings of each module as one document."""
    yield from _topics(held_out=held_out)
    for name, tree in _modules(held_out=held_out):
        docstrings = [
            ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, DOCUMENTED)
        ]
        text = running_text("\n\n".join(docstrings))
        if len(text) >= MINIMUM_CHARACTERS:
            yield Document(name, text)


def _topics(*, held_out: bool) -> Iterator[Document]:
    """The language reference as ``help()`` shows it."""
    for key, topic in sorted(topics.items()):
        name, text = f"topic:{key}", running_text(topic)
        if len(text) >= MINIMUM_CHARACTERS and is_held_out(name) is held_out:
            yield Document(name, text)


def running_text(text: str) -> str:
    """The paragraphs of English in a text, one line each, with an empty line after each."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    return "".join(f"{paragraph}\n\n" for paragraph in paragraphs if _is_english(paragraph))


def _is_english(paragraph: str) -> bool:
    letters = sum(character.isalpha() or character == " " for character in paragraph)
    return len(paragraph) >= PARAGRAPH_CHARACTERS and letters >= ENGLISH_SHARE * len(paragraph)


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _modules(*, held_out: bool) -> Iterator[tuple[str, ast.Module]]:
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(_sources(root)):
        name = path.relative_to(root).as_posix()
        if path.name.startswith("_sysconfigdata") or is_held_out(name) is not held_out:
            continue
        try:
            yield name, ast.parse(path.read_bytes())
        except SyntaxError:  # lib2to3 carries Python 2 files
            continue


def _sources(root: Path) -> Iterator[Path]:
    """Skipped folders are not entered: site-packages may have tens of thousands of files."""
    for folder, below, files in os.walk(root):
        below[:] = (name for name in below if name not in SKIPPED_FOLDERS)
        yield from (Path(folder, name) for name in files if name.endswith(".py"))


class _WithoutEnglish(ast.NodeTransformer):
    """Drops docstrings, and empties every string with a space in it."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return super().generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        is_message = isinstance(node.value, str) and " " in node.value
        return ast.copy_location(ast.Constant(""), node) if is_message else node
