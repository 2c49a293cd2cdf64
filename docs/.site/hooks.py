"""What the site needs besides the pages: those of the repository that lie elsewhere, and links that lead out.

Pages are written for a reader of the repository, where a link may lead to any file. On the site a link to a
page stays one, wherever the page lies; a link to another file becomes the file's path. An alert in the form
of GitHub (``> [!NOTE]``) becomes an admonition.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = (
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "charts/outrider/README.md",
)
"""Pages of the site outside of docs/."""
STYLE = ROOT / "docs" / ".site" / "extra.css"

_LINK = re.compile(r"(?<![!`])\[([^\]]+)\]\(([^)\s#]*)(#[^)\s]*)?\)")

_ALERT = re.compile(r"^> \[!(?P<kind>[A-Z]+)\]\n(?P<text>(?:>.*\n?)+)", re.M)
_ADMONITIONS = {
    "NOTE": "note",
    "TIP": "tip",
    "IMPORTANT": "info",
    "WARNING": "warning",
    "CAUTION": "danger",
}


def decision_pages() -> list[str]:
    """All of them, so that a new one needs no line in the navigation."""
    return sorted(f"decisions/{path.name}" for path in (ROOT / "docs" / "decisions").glob("0*.md"))


def place_of(page: str) -> str:
    """Where a page of the site lies in the repository. page: as the navigation names it."""
    return page if page in ELSEWHERE else f"docs/{page}"


def page_at(place: str) -> str | None:
    """The inverse; None: no page of the site lies there."""
    if place in ELSEWHERE:
        return place
    return place.removeprefix("docs/") if place.startswith("docs/") else None


def links(markdown: str) -> Iterator[tuple[str, str]]:
    """Relative links of a page outside of fenced blocks: target and anchor."""
    for line in _prose(markdown):
        for _, target, anchor in _LINK.findall(line):
            if not re.match(r"[a-z]+:", target):
                yield target, anchor


def rewritten(markdown: str, page: str) -> str:
    """The same page with links that hold on the site, and its alerts as admonitions."""
    markdown = _ALERT.sub(_admonition, markdown)
    inside = False
    lines = []
    for line in markdown.splitlines(keepends=True):
        inside ^= line.lstrip().startswith("```")
        lines.append(line if inside else _LINK.sub(lambda found: _link(found, page), line))
    return "".join(lines)


def _admonition(found: re.Match[str]) -> str:
    kind = _ADMONITIONS[found["kind"]]
    lines = (line.removeprefix(">").strip() for line in found["text"].splitlines())
    return f"!!! {kind}\n\n" + "".join(f"    {line}\n" for line in lines)


def _prose(markdown: str) -> Iterator[str]:
    inside = False
    for line in markdown.splitlines():
        inside ^= line.lstrip().startswith("```")
        if not inside:
            yield line


def _link(found: re.Match[str], page: str) -> str:
    text, target, anchor = found[1], found[2], found[3] or ""
    if not target or re.match(r"[a-z]+:", target):
        return found[0]
    place = posixpath.normpath(posixpath.join(posixpath.dirname(place_of(page)), target))
    led_to = page_at(place)
    if led_to is not None:
        return f"[{text}]({posixpath.relpath(led_to, posixpath.dirname(page) or '.')}{anchor})"
    return f"{text} (`{place}`)" if (ROOT / place).exists() else found[0]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Every decision is in the navigation."""
    for section in config.nav or ():
        if "Decisions" in section:
            section["Decisions"] += decision_pages()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages that lie elsewhere, and the style of the site."""
    from mkdocs.structure.files import File

    for page in ELSEWHERE:
        files.append(File.generated(config, page, abs_src_path=str(ROOT / page)))
    files.append(File.generated(config, STYLE.name, abs_src_path=str(STYLE)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Links that hold on the site."""
    return rewritten(markdown, page.file.src_uri)
