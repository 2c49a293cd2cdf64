"""The picture: Outrider's lap over one time axis, and all arms phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from examples.demo.bars import draw_bars
from examples.demo.panels import OwnLap, draw_concurrency, draw_draft_length, draw_rates, share_time
from examples.demo.phases import Arm
from examples.demo.result import Result
from examples.demo.simulated_picture import draw_simulated
from examples.kit.style import LARGEST, OUTRIDER, STYLE, ZERO


def save(result: Result, path: Path) -> None:
    """Draw and write the picture; the suffix of the path gives the format."""
    with mpl.rc_context(STYLE):
        draw(result).savefig(path)


def draw(result: Result) -> Figure:
    """What was computed: four panels over one time axis, and the bars. Below it what was simulated."""
    heights = [2.3, 1.0, *([1.5] if result.simulated else [])]
    figure = Figure(figsize=(12, 3.3 * sum(heights)), layout="constrained")
    parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights)
    _draw_laps(parts[0], result)
    draw_bars(parts[1].subplots(), result)
    if result.simulated:
        draw_simulated(parts[2], result.simulated)
    return figure


def _draw_laps(part: Any, result: Result) -> None:
    label = result.conditions.computed
    part.suptitle(label[:1].upper() + label[1:], fontweight="bold")
    axes = part.subplots(4, 1, sharex=True, height_ratios=[2.2, 1, 1, 1])
    lap = _own_lap(result)
    _throughput(axes[0], lap, result)
    draw_concurrency(axes[1], lap)
    axes[1].set_title("Concurrency")
    _acceptance(axes[2], lap, result)
    draw_draft_length(axes[3], lap, result.statuses, result.conditions.candidates)
    axes[3].set_title("K in force at that load (num_speculative_tokens), trials included")
    share_time(axes, lap)
    axes[-1].set_xlabel("seconds since the start of Outrider's lap")


def _own_lap(result: Result) -> OwnLap:
    return OwnLap([stretch for stretch in result.stretches if stretch.arm is Arm.OUTRIDER])


def _throughput(axis: Axes, lap: OwnLap, result: Result) -> None:
    draw_rates(axis, lap, result.phases)
    largest = f"K = {result.conditions.largest_k} held, mean of its slices"
    zero = "K = 0 held, mean of its slices"
    _levels(axis, lap, [phase.static_zero.mean for phase in result.phases], ZERO, zero)
    _levels(axis, lap, [phase.static_largest.mean for phase in result.phases], LARGEST, largest)
    axis.legend(loc="upper left", ncols=3, frameon=False)
    axis.set_title("Throughput of all streams (prompts, concurrent streams)", pad=20)


def _levels(axis: Axes, lap: OwnLap, levels: Sequence[float | None], colour: str, label: str) -> None:
    """One dashed line per phase, where there is a level."""
    phases = zip(levels, pairwise(lap.edges), strict=True)
    spans = [(level, left, right) for level, (left, right) in phases if level is not None]
    if spans:
        axis.hlines(*zip(*spans, strict=True), color=colour, linewidth=2, linestyle="--", label=label)


def _acceptance(axis: Axes, lap: OwnLap, result: Result) -> None:
    own = [(lap.since_start(one.time), one.rate) for one in result.acceptance]
    points = [(time, rate) for time, rate in own if 0 <= time <= lap.edges[-1]]
    axis.plot([time for time, _ in points], [rate for _, rate in points], ".", color=OUTRIDER, markersize=4)
    axis.set_ylim(0, 1.05)
    axis.set_ylabel("accepted / drafted")
    axis.set_title("Acceptance of drafted tokens (no points while K = 0)")
