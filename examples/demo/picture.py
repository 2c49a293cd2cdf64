"""The picture: Outrider's lap over one time axis, and all arms phase by phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from examples.demo.bars import draw_bars
from examples.demo.measure import k_at
from examples.demo.palette import GREY, LARGEST, LINE, OUTRIDER, ZERO
from examples.demo.phases import STREAMS, Arm
from examples.demo.result import Result, Sample

SMOOTHED_COUNTS = 3
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "figure.dpi": 150,
}


@dataclass(frozen=True, slots=True)
class OwnLap:
    """Outrider's lap. Times are seconds since its start."""

    began: float  # in the result's own seconds
    samples: Sequence[Sample]

    @property
    def times(self) -> list[float]:
        """When each sample was taken."""
        return [sample.seconds - self.began for sample in self.samples]

    @property
    def edges(self) -> list[float]:
        """Where the phases meet, from 0 to the end."""
        phases = groupby(self.samples, key=lambda sample: sample.phase)
        return [0.0, *(list(group)[-1].seconds - self.began for _, group in phases)]


def save(result: Result, path: Path) -> None:
    """Draw and write the picture; the suffix of the path gives the format."""
    with mpl.rc_context(STYLE):
        draw(result).savefig(path)


def draw(result: Result) -> Figure:
    """Four panels over one time axis, and the bars below."""
    figure = Figure(figsize=(12, 11), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=[2.3, 1])
    over_time, bars = halves
    axes = over_time.subplots(4, 1, sharex=True, height_ratios=[2.2, 1, 1, 1])
    lap = _own_lap(result)
    _throughput(axes[0], lap, result)
    _concurrency(axes[1], lap)
    _acceptance(axes[2], lap, result)
    _draft_length(axes[3], lap, result)
    for axis in axes:
        for edge in lap.edges[1:-1]:
            axis.axvline(edge, color=LINE, linewidth=0.8, zorder=0)
        axis.margins(x=0)
    axes[-1].set_xlabel("seconds since the start of Outrider's lap")
    draw_bars(bars.subplots(), result)
    return figure


def _own_lap(result: Result) -> OwnLap:
    own = [sample for sample in result.samples if sample.arm == Arm.OUTRIDER]
    return OwnLap(own[0].seconds - own[0].covered_seconds, own)


def _throughput(axis: Axes, lap: OwnLap, result: Result) -> None:
    rates = smoothed(lap.samples)
    axis.step(lap.times, rates, color=OUTRIDER, linewidth=1.2, label=f"Outrider, mean of {SMOOTHED_COUNTS} s")
    largest = f"K = {result.conditions.largest_k} held, mean of its slices"
    zero = "K = 0 held, mean of its slices"
    _levels(axis, lap, [phase.static_zero.mean for phase in result.phases], ZERO, zero)
    _levels(axis, lap, [phase.static_largest.mean for phase in result.phases], LARGEST, largest)
    for (left, right), phase in zip(pairwise(lap.edges), result.phases, strict=True):
        place = ((left + right) / 2, 1.02)
        text = f"{phase.prompts}, {phase.streams}"
        axis.text(*place, text, transform=axis.get_xaxis_transform(), ha="center", color=GREY)
    axis.set_ylim(0, max(rates) * 1.3)
    axis.legend(loc="upper left", ncols=3, frameon=False)
    axis.set_ylabel("tokens/s")
    axis.set_title("Throughput of all streams (prompts, concurrent streams)", pad=20)


def smoothed(samples: Sequence[Sample]) -> list[float]:
    """Tokens per second over each count and its predecessors in the same phase, SMOOTHED_COUNTS in all."""
    rates = []
    for index, sample in enumerate(samples):
        recent = samples[max(0, index - SMOOTHED_COUNTS + 1) : index + 1]
        own = [one for one in recent if one.phase == sample.phase]
        rates.append(sum(one.tokens for one in own) / sum(one.covered_seconds for one in own))
    return rates


def _levels(axis: Axes, lap: OwnLap, levels: Sequence[float | None], colour: str, label: str) -> None:
    """One dashed line per phase, where there is a level."""
    phases = zip(levels, pairwise(lap.edges), strict=True)
    spans = [(level, left, right) for level, (left, right) in phases if level is not None]
    if spans:
        axis.hlines(*zip(*spans, strict=True), color=colour, linewidth=2, linestyle="--", label=label)


def _concurrency(axis: Axes, lap: OwnLap) -> None:
    streams = [sample.streams for sample in lap.samples]
    axis.fill_between(lap.times, streams, step="pre", color=GREY, alpha=0.35, linewidth=0)
    axis.set_yscale("log", base=2)
    axis.set_yticks(sorted(STREAMS), [str(count) for count in sorted(STREAMS)])
    axis.set_ylim(0.7, 1.5 * max(streams))
    axis.set_ylabel("streams")
    axis.set_title("Concurrency")


def _acceptance(axis: Axes, lap: OwnLap, result: Result) -> None:
    ended = lap.samples[-1].seconds
    spans = [one for one in result.acceptance if lap.began <= one.seconds <= ended]
    times = [one.seconds - lap.began for one in spans]
    axis.plot(times, [one.rate for one in spans], ".", color=OUTRIDER, markersize=4)
    axis.set_ylim(0, 1.05)
    axis.set_ylabel("accepted / drafted")
    axis.set_title("Acceptance of drafted tokens (no points while K = 0)")


def _draft_length(axis: Axes, lap: OwnLap, result: Result) -> None:
    points = []
    for status in result.statuses:
        load = next((one.streams for one in lap.samples if status.seconds <= one.seconds), None)
        if status.table and load is not None and status.seconds >= lap.began:
            points.append((status.seconds - lap.began, k_at(status.table, load)))
    axis.step(*zip(*points, strict=True), where="post", color=OUTRIDER, linewidth=1.6)
    axis.set_yticks(result.conditions.candidates)
    axis.set_ylim(-0.4, result.conditions.largest_k + 0.4)
    axis.set_ylabel("K")
    axis.set_title("K in force at that load (num_speculative_tokens), trials included")
