"""The picture: what Outrider drove over one time axis, and all arms phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from examples.demo.bars import draw_bars
from examples.demo.panels import (
    TURNS_WORDS,
    OwnTime,
    draw_concurrency,
    draw_draft_length,
    draw_rates,
    shade_uncounted,
    share_time,
)
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
    _draw_computed(parts[0], result)
    draw_bars(parts[1].subplots(), result)
    if result.simulated:
        draw_simulated(parts[2], result.simulated)
    return figure


def _draw_computed(part: Any, result: Result) -> None:
    label = result.conditions.computed
    part.suptitle(label[:1].upper() + label[1:], fontweight="bold")
    axes = part.subplots(4, 1, sharex=True, height_ratios=[2.2, 1, 1, 1.3])
    own = _own_time(result)
    _throughput(axes[0], own, result)
    draw_concurrency(axes[1], own)
    axes[1].set_title("Concurrency")
    _acceptance(axes[2], own, result)
    draw_draft_length(axes[3], own, result.statuses, result.k_in_use, result.conditions.candidates)
    axes[3].set_title("K (num_speculative_tokens), probes included")
    share_time(axes, own)
    axes[-1].set_xlabel("seconds of Outrider's own, without the intervals of fixed K between")


def _own_time(result: Result) -> OwnTime:
    return OwnTime([stretch for stretch in result.stretches if stretch.arm is Arm.OUTRIDER])


def _throughput(axis: Axes, own: OwnTime, result: Result) -> None:
    draw_rates(axis, own, result.phases)
    largest = f"K = {result.conditions.largest_k} fixed, mean of its intervals"
    zero = "K = 0 fixed, mean of its intervals"
    _levels(axis, own, [phase.static_zero.mean for phase in result.phases], ZERO, zero)
    _levels(axis, own, [phase.static_largest.mean for phase in result.phases], LARGEST, largest)
    shade_uncounted(axis, own)
    axis.legend(loc="upper left", ncols=4, frameon=False)
    axis.set_title(f"Throughput of all streams (prompts, concurrent streams; {TURNS_WORDS})", pad=20)


def _levels(axis: Axes, own: OwnTime, levels: Sequence[float | None], colour: str, label: str) -> None:
    """One dashed line per phase, where there is a level."""
    phases = zip(levels, pairwise(own.edges), strict=True)
    spans = [(level, left, right) for level, (left, right) in phases if level is not None]
    if spans:
        axis.hlines(*zip(*spans, strict=True), color=colour, linewidth=2, linestyle="--", label=label)


def _acceptance(axis: Axes, own: OwnTime, result: Result) -> None:
    points = own.placed((one.time, one.rate) for one in result.acceptance)
    axis.plot([time for time, _ in points], [rate for _, rate in points], ".", color=OUTRIDER, markersize=4)
    axis.set_ylim(0, 1.05)
    axis.set_ylabel("accepted / drafted")
    axis.set_title("Acceptance of drafted tokens (no points while K = 0)")
