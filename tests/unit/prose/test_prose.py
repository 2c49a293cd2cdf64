"""The prose linter names the line of a bad sentence in each kind of file, and passes plain ones."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.environment.place import locate
from tests.prose.__main__ import check
from tests.prose.texts import markdown, texts

needs_vale = pytest.mark.skipif(
    shutil.which("vale", path=f"{locate(os.environ).bin}:{os.environ['PATH']}") is None,
    reason="vale is not built; `make check` builds it",
)
LONG = "one two three four five six seven eight nine ten eleven twelve thirteen " * 2

PAGE = """# A page

The operator scrapes each pod, and `told` is code.
The operator is told.

- A belief about one K.

| column |
|---|
| nobody |
"""

CODE = f'''"""A module."""

LIMIT = 3
"""Of the requests."""


def advice(name: str) -> str:
    """The advice for one model.

    The tuner goes on.

        nobody + told
    """
    # Whoever calls it.
    return f"delete {{name}} as soon as nobody " \\
        "waits for it" if name else "select max(told) by (pod) == 1"


LONG = "{LONG}"
'''

YAML = """# The operator's image.
image: told  # Nobody reads it.
annotations:
  summary: "The pod waits"
  description: >-
    One tenant is affected.
    The others go on.
"""

NOTES = """The operator runs in {{ .Release.Namespace }}.
{{- if told }}
It stands by.
{{- end }}
"""


def found(folder: Path, name: str, text: str) -> list[tuple[int, str]]:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return [(finding.line, finding.rule.removeprefix("Outrider.")) for finding in check(folder, [path])]


@needs_vale
@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("page.md", PAGE, [(4, "Banned"), (6, "Terms"), (10, "Banned")]),
        (
            "code.py",
            CODE,
            [(4, "Start"), (10, "Banned"), (14, "Banned"), (15, "Banned"), (19, "Length")],
        ),
        ("values.yaml", YAML, [(2, "Banned"), (7, "Banned")]),
        ("NOTES.txt", NOTES, [(3, "Banned")]),
    ],
    ids=["page", "code", "values", "notes"],
)
def test_each_bad_sentence_is_found_on_its_line(
    name: str, text: str, expected: list[tuple[int, str]], tmp_path: Path
) -> None:
    assert found(tmp_path, name, text) == expected


@needs_vale
def test_a_plain_text_passes(tmp_path: Path) -> None:
    assert found(tmp_path, "page.md", "The operator scrapes each pod. There is no other reader.\n") == []


@needs_vale
def test_a_sentence_of_25_words_passes_and_code_counts_as_one_word(tmp_path: Path) -> None:
    words = "word " * 23 + "`kubectl get pods`"
    assert found(tmp_path, "a.md", f"{words} last.\n") == []
    assert found(tmp_path, "b.md", f"{words} the last.\n") == [(1, "Length")]


@needs_vale
def test_a_decision_may_keep_its_long_sentences(tmp_path: Path) -> None:
    assert found(tmp_path, "docs/decisions/0001-a.md", f"{LONG}.\n") == []


def test_texts_keep_the_lines_of_their_source() -> None:
    prose = markdown(texts(Path("code.py"), CODE).prose).split("\n")
    assert prose[0] == "- A module."
    assert prose[9] == "The tuner goes on."
    assert prose[14] == "- delete `x` as soon as nobody waits for it"
