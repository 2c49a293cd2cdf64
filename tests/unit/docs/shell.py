"""Command lines of the pages, taken apart as a shell would."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from tests.unit.docs.pages import Block

CHECKED = {"outrider", "kubectl", "helm", "make", "python3", "python", "uv"}
TAKEN_AS_THEY_ARE = {
    "apt-get",
    "curl",
    "diff",
    "docker",
    "export",
    "git",
    "grep",
    "kill",
    "kind",
    "openssl",
    "pip",
    "seq",
    "sleep",
    "xargs",
}
_KEYWORDS = {"until", "while", "do", "done", "if", "then", "fi"}
_PROMPT = "$ "


def commands(block: Block) -> Iterator[list[str]]:
    """Words of each command of a block; none where it shows something else."""
    for line in _lines(block):
        yield from _commands(line)


def is_shell(block: Block) -> bool:
    """True if a reader types it."""
    if block.language == "sh":
        return True
    return not block.language and any(_is_typed(line) for line in block.lines)


def _is_typed(line: str) -> bool:
    return line.removeprefix(_PROMPT).split(" ")[0] in CHECKED | {"export"}


def _lines(block: Block) -> Iterator[str]:
    """Typed lines, continued ones joined; what a command printed is left out."""
    if not is_shell(block):
        return
    prompted = any(line.startswith(_PROMPT) for line in block.lines)
    joined = "\n".join(block.lines).replace("\\\n", " ").splitlines()
    for line in joined:
        if line.startswith(_PROMPT):
            yield line.removeprefix(_PROMPT)
        elif not prompted and line.strip():
            yield line


def _commands(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    redirected = False
    for token in lexer:
        if redirected:
            redirected = False
        elif set(token) <= {">"}:
            redirected = True
        elif set(token) <= set("();<>|&"):
            yield from _one(words)
            words = []
        else:
            words.append(token)
    yield from _one(words)


def _one(words: Sequence[str]) -> Iterator[list[str]]:
    rest = list(words)
    while rest and (rest[0] in _KEYWORDS or ("=" in rest[0] and not rest[0].startswith("-"))):
        del rest[0]
    if rest:
        yield rest
