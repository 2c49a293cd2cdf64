"""Two kinds of charts as SVG, by matplotlib: lines over a common axis, and bars with intervals.

Text and axes take the colour of the page, so that a chart fits light and dark pages. The colours of the data
have a contrast of 3 to both, and colour-blind readers can distinguish them. A chart is drawn in its final
width, since text would shrink with it. matplotlib comes with the extra `report` of the package.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from textwrap import fill
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#9944EE", "#DD0044")
BROAD, NARROW = 720, 340
"""Widths in pixels: of a page, and of a phone less its margins."""
_PANEL, _LEGEND, _ROW = 190, 20, 30
"""Heights in pixels: of a panel of lines, of a row of names in the legend, and of a bar."""
_CHARACTER = 9.0
"""Maximum mean width of a character in pixels."""
_INK = "#010203"
"""The colour in place of the page's own while matplotlib draws."""
_OWN = (
    "svg{background:#fff;color:#1c2026}"
    "@media (prefers-color-scheme:dark){svg{background:#16181d;color:#dde1e7}}"
)
_STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "axes.titleweight": "bold",
    "axes.xmargin": 0.01,
    "font.size": 13,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
    "svg.hashsalt": "outrider",
    "text.parse_math": False,
    **{f"axes.spines.{side}": False for side in ("left", "right", "top", "bottom")},
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 0),
    **dict.fromkeys(("axes.labelcolor", "grid.color", "text.color", "xtick.color", "ytick.color"), _INK),
}


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
    text: str


def lines_chart(panels: Sequence[Panel], *, axis: str, alt: str, width: int = BROAD) -> str:
    """Panels above one another over the same horizontal axis. alt: text for readers who cannot see it.

    Raises:
        ValueError: there is no point to draw.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    xs = [x for panel in panels for line in panel.lines for x, _ in line.points]
    if not xs:
        raise ValueError("no points to draw")
    columns = max(1, int(width / (_CHARACTER * (max(map(len, names)) + 5))))
    height = _PANEL * len(panels) + _LEGEND * -(-len(names) // columns)
    with rc_context(_STYLE):
        figure = Figure((width / 72, height / 72), layout="constrained")
        for number, panel in enumerate(panels, 1):
            axes = figure.add_subplot(len(panels), 1, number, xlim=_reach(xs))
            axes.set_title(fill(panel.title, int(width / _CHARACTER) - 6))
            for line in panel.lines:
                axes.plot(
                    *zip(*line.points, strict=True),
                    color=COLOURS[names.index(line.name) % len(COLOURS)],
                    drawstyle="steps-post" if line.steps else "default",
                    label=line.name,
                    linestyle="--" if line.dashed else "-",
                )
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
            whole = all(x == int(x) for x in xs)
            axes.xaxis.set_major_locator(MaxNLocator(width // 80, integer=whole, steps=[1, 2, 5, 10]))
        axes.set_xlabel(axis)
        keys = {str(line.get_label()): line for each in figure.axes for line in each.lines}
        figure.legend(keys.values(), keys, loc="outside upper left", ncols=columns)
        return _svg(figure, alt)


def bars_chart(bars: Sequence[Bar], *, alt: str, width: int = BROAD) -> str:
    """One bar per row from 0, with its interval and its text. alt: text for readers who cannot see it."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({**_STYLE, "axes.grid": False}):
        figure = Figure((width / 72, _ROW * (len(bars) + 0.2) / 72), layout="constrained")
        axes = figure.add_subplot(xticks=[], ylim=(len(bars) - 0.5, -0.5))
        for row, bar in enumerate(bars):
            colour = COLOURS[row % len(COLOURS)]
            low, high = max(0.0, bar.low), max(0.0, bar.high)
            axes.barh(row, bar.value, height=0.6, color=(colour, 0.6), edgecolor=colour)
            ends, heights = (low, low, low, high, high, high), (-0.17, 0.17, 0, 0, -0.17, 0.17)
            axes.plot(ends, [row + each for each in heights], color=_INK, linewidth=1.5)
        axes.set_xlim(0, max((bar.high for bar in bars), default=0.0) or 1.0)
        axes.set_yticks(range(len(bars)), [bar.name for bar in bars])
        texts = axes.secondary_yaxis("right")
        texts.set_yticks(range(len(bars)), [bar.text for bar in bars])
        texts.spines["right"].set_visible(False)
        return _svg(figure, alt)


def standalone(chart: str) -> str:
    """A chart as a file of its own, light or dark as its reader has it."""
    return chart.replace("<title>", f"<style>{_OWN}</style><title>", 1)


def _reach(xs: Sequence[float]) -> tuple[float, float]:
    return min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1


def _svg(figure: Figure, alt: str) -> str:
    """The figure in the colours and the font of the page, without identifiers and references."""
    written = StringIO()
    figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    drawn = written.getvalue().partition("</style>\n </defs>")[2].replace(_INK, "currentColor")
    drawn = re.sub(
        r' (id|clip-path)="[^"]*"|font-family: [^;]*; |<defs>.*?</defs>\s*', "", drawn, flags=re.DOTALL
    )
    width, height = (72 * inches for inches in figure.get_size_inches())
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" style="font:13px system-ui,sans-serif;'
        f'stroke-linejoin:round;max-width:100%"><title>{escape(alt)}</title>{drawn.rstrip()}'
    )
