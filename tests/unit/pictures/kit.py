"""What tests of pages share."""

from __future__ import annotations

from html import escape
from html.parser import HTMLParser
from types import ModuleType

import pytest


def without_drawing(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Give a module empty charts, for tests of what stands around them: drawing a page takes a second."""

    def empty(*_: object, alt: str, **__: object) -> str:
        return f"<svg><title>{escape(alt)}</title></svg>"

    monkeypatch.setattr(module, "bars_chart", empty)
    monkeypatch.setattr(module, "lines_chart", empty)


VOID = {"meta", "br"}


class Tags(HTMLParser):
    """Fails where a tag is left open or closed twice."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        """Nothing is left open."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
