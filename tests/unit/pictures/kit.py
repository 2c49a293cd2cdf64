"""What tests of pages share."""

from __future__ import annotations

from html import escape
from types import ModuleType

import pytest


def without_drawing(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Give a module empty charts, for tests of what stands around them: drawing a page takes a second."""

    def empty(*_: object, alt: str, **__: object) -> str:
        return f"<svg><title>{escape(alt)}</title></svg>"

    monkeypatch.setattr(module, "bars_chart", empty)
    monkeypatch.setattr(module, "lines_chart", empty)
