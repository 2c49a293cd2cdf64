"""Two kinds of charts as SVG: lines over a common axis, and bars with intervals.

Text and axes have the colour of the text around, so that a chart fits a light and a dark page alike. The
colours of the data are those of Okabe and Ito, which colour-blind readers can tell apart on both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
WIDTH = 720
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 30, 34
_HEIGHT = 190
"""Of a panel of lines, its title and the labels of its axis included."""
_BARS_WIDTH, _ROW, _LABELS, _FIGURES = 560, 30, 84, 170
"""Of bars: width, height of a row, width of the names on the left and of the figures on the right."""
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


def lines_chart(panels: Sequence[Panel], *, axis: str, told: str) -> str:
    """Panels above one another over the same horizontal axis. told: what a reader who cannot see it is told.

    Raises:
        ValueError: there is no point to draw.
    """
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    xs = [x for panel in panels for line in panel.lines for x, _ in line.points]
    if not xs:
        raise ValueError("no points to draw")
    parts = list(_legend(names))
    for index, panel in enumerate(panels):
        parts += _panel(panel, names, (min(xs), max(xs)), top=24 + index * _HEIGHT)
    height = 24 + len(panels) * _HEIGHT + 12
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(_text(middle, height - 4, axis, anchor="middle"))
    return _svg(parts, height, told)


def bars_chart(bars: Sequence[Bar], *, told: str, mark: float | None = None) -> str:
    """One bar per row from 0, with its interval. mark: a value to compare with, as a line."""
    most = max([*(bar.high for bar in bars), mark or 0.0]) or 1.0
    room = _BARS_WIDTH - _LABELS - _FIGURES

    def place(value: float) -> float:
        return _LABELS + room * min(1.0, max(0.0, value) / most)

    parts: list[str] = []
    for index, bar in enumerate(bars):
        middle = _ROW * index + _ROW / 2 + 2
        wide = place(bar.value) - _LABELS
        colour = COLOURS[index % len(COLOURS)]
        parts.append(_text(_LABELS - 8, middle + 4, bar.name, anchor="end"))
        size = f'width="{wide:.1f}" height="18" rx="2"'
        parts.append(f'<rect x="{_LABELS}" y="{middle - 9:.1f}" {size} fill="{colour}"/>')
        low, high = place(bar.low), place(bar.high)
        parts.append(_stroke(f"M{low:.1f} {middle:.1f}H{high:.1f}", width=1.5))
        parts += [_stroke(f"M{at:.1f} {middle - 5:.1f}v10", width=1.5) for at in (low, high)]
        parts.append(_text(_BARS_WIDTH - _FIGURES + 12, middle + 4, bar.told))
    height = _ROW * len(bars) + 6
    if mark is not None:
        parts.append(_stroke(f"M{place(mark):.1f} 2V{height - 2}", width=1, dashed=True))
    return _svg(parts, height, told, width=_BARS_WIDTH)


def standalone(chart: str) -> str:
    """A chart as a file of its own, light or dark as its reader has it."""
    return chart.replace("<title>", f"<style>{_OWN}</style><title>", 1)


def _panel(panel: Panel, names: Sequence[str], across: tuple[float, float], *, top: float) -> Iterator[str]:
    ticks = _ticks(max((y for line in panel.lines for _, y in line.points), default=1.0))
    floor, ceiling = top + _HEIGHT - _BOTTOM, top + _TOP
    first, last = across
    width = (last - first) or 1.0

    def place(x: float, y: float) -> str:
        left = _LEFT + (x - first) / width * (WIDTH - _LEFT - _RIGHT)
        return f"{left:.1f} {floor - y / ticks[-1] * (floor - ceiling):.1f}"

    yield _text(_LEFT, top + 16, panel.title, bold=True)
    for tick in ticks:
        _, y = place(first, tick).split()
        yield _stroke(f"M{_LEFT} {y}H{WIDTH - _RIGHT}", width=0.5, faint=True)
        yield _text(_LEFT - 8, float(y) + 4, f"{tick:g}", anchor="end")
    for tick in _ticks(last):
        if first <= tick <= last:
            x, _ = place(tick, 0).split()
            yield _text(float(x), floor + 18, f"{tick:g}", anchor="middle")
    for line in panel.lines:
        colour = COLOURS[names.index(line.name) % len(COLOURS)]
        yield _stroke(_path(line, place), width=1.8, colour=colour, dashed=line.dashed)


def _path(line: Line, place: Callable[[float, float], str]) -> str:
    words: list[str] = []
    before: float | None = None
    for x, y in line.points:
        if line.steps and before is not None:
            words.append(f"L{place(x, before)}")
        words.append(f"{'L' if words else 'M'}{place(x, y)}")
        before = y
    return "".join(words)


def _ticks(most: float) -> list[float]:
    """From 0 to `most` or a little more, in steps that people count in."""
    if most <= 0 or not math.isfinite(most):
        return [0.0, 1.0]
    rough = most / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= rough)
    return [step * index for index in range(math.ceil(most / step - 1e-9) + 1)]


def _legend(names: Sequence[str]) -> Iterator[str]:
    left = float(_LEFT)
    for index, name in enumerate(names):
        colour = COLOURS[index % len(COLOURS)]
        yield f'<rect x="{left:.0f}" y="7" width="14" height="4" fill="{colour}"/>'
        yield _text(left + 19, 14, name)
        left += 34 + 7.2 * len(name)


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


def _svg(parts: Sequence[str], height: float, told: str, *, width: int = WIDTH) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" role="img" '
        f'style="{_STYLE};max-width:100%"><title>{escape(told)}</title>{"".join(parts)}</svg>'
    )
