"""Two kinds of charts as SVG: lines over a common axis, and bars with intervals.

Text and axes take the colour of the page, so that a chart fits light and dark pages. The colours of the data
have a contrast of 3 to both, and colour-blind readers can distinguish them. A chart is drawn in its final
width, since text would shrink with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#9944EE", "#DD0044")
BROAD, NARROW = 720, 340
"""Widths in pixels: of a page, and of a phone less its margins."""
_RIGHT, _TOP, _BOTTOM = 12, 18, 34
_HEIGHT = 190
"""Height of a panel of lines, with one line of title and the labels of its axis."""
_GAP = 8
"""Distance between a label and its object."""
_LINE = 17
"""Distance between two lines of text."""
_ADVANCE, _BOLD = 8.4, 9.0
"""Largest mean width of a character in a word; digits of wide fonts reach it."""
_TICK = 64
"""Least room for a label of the horizontal axis."""
_KEY = 14
"""Width of the colour beside a name in a legend."""
_ROW = 30
_STYLE = "font:13px system-ui,sans-serif"
_OWN = (
    "svg{background:#fff;color:#1c2026}"
    "@media (prefers-color-scheme:dark){svg{background:#16181d;color:#dde1e7}}"
)


@dataclass(frozen=True, slots=True)
class Line:
    """Points from left to right. steps: each value holds until the next."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False
    steps: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines over one vertical axis, which begins at 0."""

    title: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Bar:
    """A value, its interval, and both as text."""

    name: str
    value: float
    low: float
    high: float
    told: str


def lines_chart(panels: Sequence[Panel], *, axis: str, told: str, width: int = BROAD) -> str:
    """Panels above one another over the same horizontal axis. ``told``: text for readers who cannot see it.

    Raises:
        ValueError: there is no point to draw.
    """
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    xs = [x for panel in panels for line in panel.lines for x, _ in line.points]
    if not xs:
        raise ValueError("no points to draw")
    labels = [f"{tick:g}" for panel in panels for tick in _heights(panel)]
    frame = _Frame(_GAP + max(map(_length, labels)), width - _RIGHT, min(xs), max(xs))
    ticks = _ticks(max(xs), most=int(frame.room // _TICK), whole=all(x == int(x) for x in xs))
    rows = _rows(names, frame.room)
    parts = list(_legend(rows, names, frame.left))
    top = float(_LINE * len(rows) + 4)
    for panel in panels:
        title = wrap(panel.title, int(frame.room / _BOLD))
        parts += [
            _text(frame.left, top + _LINE * (index + 1), line, bold=True) for index, line in enumerate(title)
        ]
        top += _LINE * len(title)
        parts += _panel(panel, names, frame, ticks, ceiling=top + _TOP)
        top += _HEIGHT - _LINE
    parts.append(_text((frame.left + frame.right) / 2, top + _LINE / 2, axis, anchor="middle"))
    return _svg(parts, top + _LINE, told, width=width)


def bars_chart(bars: Sequence[Bar], *, told: str, mark: float | None = None, width: int = BROAD) -> str:
    """One bar per row from 0, with its interval. mark: a value to compare with, as a line."""
    most = max([*(bar.high for bar in bars), mark or 0.0]) or 1.0
    left = _GAP + max((_length(bar.name) for bar in bars), default=0.0)
    right = width - _GAP - max((_length(bar.told) for bar in bars), default=0.0)

    def place(value: float) -> float:
        return left + (right - left) * min(1.0, max(0.0, value) / most)

    parts: list[str] = []
    for index, bar in enumerate(bars):
        middle = _ROW * index + _ROW / 2 + 2
        colour = COLOURS[index % len(COLOURS)]
        parts.append(_text(left - _GAP, middle + 4, bar.name, anchor="end"))
        size = f'width="{place(bar.value) - left:.1f}" height="18" rx="2"'
        fill = f'fill="{colour}" fill-opacity="0.6" stroke="{colour}"'
        parts.append(f'<rect x="{left:.1f}" y="{middle - 9:.1f}" {size} {fill}/>')
        low, high = place(bar.low), place(bar.high)
        parts.append(_stroke(f"M{low:.1f} {middle:.1f}H{high:.1f}", width=1.5))
        parts += [_stroke(f"M{at:.1f} {middle - 5:.1f}v10", width=1.5) for at in (low, high)]
        parts.append(_text(right + _GAP, middle + 4, bar.told))
    height = _ROW * len(bars) + 6
    if mark is not None:
        parts.append(_stroke(f"M{place(mark):.1f} 2V{height - 2}", width=1, dashed=True))
    return _svg(parts, height, told, width=width)


def standalone(chart: str) -> str:
    """A chart as a file of its own, light or dark as its reader has it."""
    return chart.replace("<title>", f"<style>{_OWN}</style><title>", 1)


@dataclass(frozen=True, slots=True)
class _Frame:
    """What all panels share: where their axis lies, and what stands at its ends."""

    left: float
    right: float
    first: float
    last: float

    @property
    def room(self) -> float:
        return self.right - self.left

    def across(self, x: float) -> float:
        return self.left + (x - self.first) / ((self.last - self.first) or 1.0) * self.room


def _panel(
    panel: Panel, names: Sequence[str], frame: _Frame, ticks: Sequence[float], *, ceiling: float
) -> Iterator[str]:
    heights = _heights(panel)
    floor = ceiling + _HEIGHT - _LINE - _TOP - _BOTTOM

    def up(y: float) -> float:
        return floor - y / heights[-1] * (floor - ceiling)

    for tick in heights:
        y = up(tick)
        yield _stroke(f"M{frame.left:.1f} {y:.1f}H{frame.right}", width=0.5, faint=True)
        yield _text(frame.left - _GAP, y + 4, f"{tick:g}", anchor="end")
    for tick in ticks:
        if frame.first <= tick <= frame.last:
            half = _length(f"{tick:g}") / 2
            x = min(frame.across(tick), frame.right + _RIGHT - half)
            yield _text(x, floor + 18, f"{tick:g}", anchor="middle")
    for line in panel.lines:
        colour = COLOURS[names.index(line.name) % len(COLOURS)]
        path = _path(line, lambda x, y: f"{frame.across(x):.1f} {up(y):.1f}")
        yield _stroke(path, width=1.8, colour=colour, dashed=line.dashed)


def _heights(panel: Panel) -> list[float]:
    return _ticks(max((y for line in panel.lines for _, y in line.points), default=1.0), most=4)


def _path(line: Line, place: Callable[[float, float], str]) -> str:
    words: list[str] = []
    before: float | None = None
    for x, y in line.points:
        if line.steps and before is not None:
            words.append(f"L{place(x, before)}")
        words.append(f"{'L' if words else 'M'}{place(x, y)}")
        before = y
    return "".join(words)


def _ticks(last: float, *, most: int, whole: bool = False) -> list[float]:
    """From 0 to `last` or a little more, in about `most` steps that people count in. whole: of 1 at least."""
    if last <= 0 or not math.isfinite(last):
        return [0.0, 1.0]
    rough = max(last / most, 1.0 if whole else 0.0)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough)
    if whole and step == 2.5:
        step = 5.0
    return [step * index for index in range(math.ceil(last / step - 1e-9) + 1)]


def _rows(names: Sequence[str], room: float) -> list[list[str]]:
    """Names of a legend, as many in a row as fit."""
    rows: list[list[str]] = [[]]
    for name in names:
        if rows[-1] and sum(map(_entry, [*rows[-1], name])) > room:
            rows.append([])
        rows[-1].append(name)
    return rows


def _legend(rows: Sequence[Sequence[str]], names: Sequence[str], left: float) -> Iterator[str]:
    for index, row in enumerate(rows):
        x, y = left, _LINE * index + 14
        for name in row:
            colour = COLOURS[names.index(name) % len(COLOURS)]
            yield f'<rect x="{x:.0f}" y="{y - 7}" width="{_KEY}" height="4" fill="{colour}"/>'
            yield _text(x + _KEY + _GAP / 2, y, name)
            x += _entry(name)


def _entry(name: str) -> float:
    """Width of a name in a legend, with its colour and the room to the next."""
    return _KEY + _GAP / 2 + _length(name) + 2 * _GAP


def _length(text: str) -> float:
    """Width of a text at most."""
    return _ADVANCE * len(text)


def _text(x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight} fill="currentColor">'
        f"{escape(text)}</text>"
    )


def _stroke(
    path: str, *, width: float, colour: str = "currentColor", dashed: bool = False, faint: bool = False
) -> str:
    more = (' stroke-dasharray="5 4"' if dashed else "") + (' stroke-opacity="0.3"' if faint else "")
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{more}/>'


def _svg(parts: Sequence[str], height: float, told: str, *, width: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" role="img" '
        f'style="{_STYLE};max-width:100%"><title>{escape(told)}</title>{"".join(parts)}</svg>'
    )
