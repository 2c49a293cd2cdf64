"""The lower part of the picture: every arm in every phase, relative to K = 0 held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from examples.demo.result import PhaseResult, Result, Throughput
from examples.kit.style import GREY, LARGEST, OUTRIDER, ZERO

WIDTH = 0.27
MARK: dict[str, Any] = {"marker": "D", "color": "black", "markersize": 4, "linestyle": ""}


def draw_bars(axis: Axes, result: Result) -> None:
    """Relative, so that one stream shows beside 32; the figures at the bars are tokens/s."""
    for position, phase in enumerate(result.phases):
        if phase.static_zero.mean:
            _phase(axis, position, phase, phase.static_zero.mean)
    axis.axhline(1.0, color=GREY, linewidth=0.8)
    axis.set_xticks(range(len(result.phases)), [_name(phase) for phase in result.phases])
    axis.set_ylim(0, axis.get_ylim()[1] * 1.25)
    axis.legend(handles=_legend(result), loc="upper left", ncols=4, frameon=False)
    axis.set_ylabel("tokens/s over K = 0")
    axis.set_title("Comparison on the same pods; figures in tokens/s, whiskers: lowest and highest interval")


def _phase(axis: Axes, position: float, phase: PhaseResult, zero: float) -> None:
    _static_bar(axis, position - WIDTH, phase.static_zero, zero, ZERO)
    _static_bar(axis, position, phase.static_largest, zero, LARGEST)
    if phase.outrider_settled is not None:
        axis.bar(position + WIDTH, phase.outrider_settled / zero, WIDTH, color=OUTRIDER)
        _figure(axis, position + WIDTH, phase.outrider_settled / zero, phase.outrider_settled)
    if phase.outrider_whole_phase is not None:
        axis.plot(position + WIDTH, phase.outrider_whole_phase / zero, **MARK)


def _static_bar(axis: Axes, position: float, arm: Throughput, zero: float, colour: str) -> None:
    if arm.mean is None:
        return
    known = [value for value in arm.slices if value is not None]
    spread = [[(arm.mean - min(known)) / zero], [(max(known) - arm.mean) / zero]]
    whiskers = {"capsize": 2, "linewidth": 1}
    axis.bar(position, arm.mean / zero, WIDTH, color=colour, yerr=spread, error_kw=whiskers)
    _figure(axis, position, max(known) / zero, arm.mean)


def _figure(axis: Axes, position: float, height: float, value: float) -> None:
    place: dict[str, Any] = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center"}
    axis.annotate(f"{value:.0f}", (position, height), fontsize=8, **place)


def _name(phase: PhaseResult) -> str:
    return f"{phase.prompts}\n{phase.streams} stream{'s' if phase.streams > 1 else ''}"


def _legend(result: Result) -> Sequence[Patch | Line2D]:
    return (
        Patch(color=ZERO, label="K = 0 held"),
        Patch(color=LARGEST, label=f"K = {result.conditions.largest_k} held"),
        Patch(color=OUTRIDER, label="Outrider, after learning"),
        Line2D([], [], **MARK, label="Outrider, with its learning"),
    )
