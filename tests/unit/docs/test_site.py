"""The site as it is built: what a browser gets of each page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from tests.unit.docs.pages import ROOT

_ITEM = re.compile(r"(?:^|\n)(?:[-*]|\d+\.) \S")
"""A list that Markdown did not take for one: it stands in a paragraph, as its lines were written."""


class Paragraphs(HTMLParser):
    """Text of all paragraphs."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        if tag == "p":
            self.found.append("")
            self._inside = True
        elif tag in ("pre", "ul", "ol", "table"):
            self._inside = False

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found[-1] += data


def paragraphs(html: str) -> list[str]:
    parser = Paragraphs()
    parser.feed(html)
    return parser.found


def collapsed(html: str) -> list[str]:
    """Paragraphs with a list or an alert that shows as running text."""
    return [each for each in paragraphs(html) if _ITEM.search(each) or "[!" in each]


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ("<p>What to see:\n- one\n- two</p>", 1),
        ("<p>Steps:\n1. one\n2. two</p>", 1),
        ("<p>- one</p>", 1),
        ("<p>[!NOTE]\nOne.</p>", 1),
        ("<p>What to see:</p><ul><li>one</li></ul>", 0),
        ("<p>It falls to\n0.5 and 1.5 - or so.</p>", 0),
        ("<pre><code>- one\n- two</code></pre>", 0),
    ],
)
def test_a_collapsed_list_is_found(html: str, found: int) -> None:
    assert len(collapsed(html)) == found


def test_no_list_of_the_site_is_collapsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True))
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) > 100
    wrong = {page.relative_to(tmp_path).as_posix(): collapsed(page.read_text("utf-8")) for page in pages}
    assert {page: texts for page, texts in wrong.items() if texts} == {}
