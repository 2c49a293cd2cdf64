"""What every picture shows over the time that was Outrider's: throughput, concurrency, K."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Any

from matplotlib.axes import Axes

from examples.demo.measure import placed
from examples.demo.phases import STREAMS
from examples.demo.result import ArmStretch, OwnPhase, StepsSample
from examples.kit.loads import Prompts
from examples.kit.records import Count, StatusSample
from examples.kit.status import k_at
from examples.kit.style import GREY, LINE, OUTRIDER

SMOOTHED_COUNTS = 3
USED_K = "mean over the engine's steps, at each of which the engine may choose"
TURNS_WORDS = f"{Prompts.TURNS}: {Prompts.TURNS.words}"
SCHEDULED_K = "of the schedule at that load"


@dataclass(frozen=True, slots=True)
class OwnTime:
    """What Outrider drove, one stretch after the other. Times are seconds of it alone."""

    stretches: Sequence[ArmStretch]

    def placed(self, samples: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
        """Those of (unix seconds, value) that lie in its stretches, with the time as seconds of its own."""
        places = ((placed(self.stretches, time), value) for time, value in samples)
        return [(place[1], value) for place, value in places if place is not None]

    @property
    def times(self) -> list[float]:
        """When each count was taken."""
        return [
            left + count.time - stretch.start
            for left, stretch in zip(self._begins, self.stretches, strict=True)
            for count in stretch.counts
        ]

    @property
    def rates(self) -> list[float]:
        """Smoothed tokens per second at each count."""
        return [rate for stretch in self.stretches for rate in smoothed(stretch.counts)]

    @property
    def streams(self) -> list[int]:
        """Streams at each count."""
        return [stretch.streams for stretch in self.stretches for _ in stretch.counts]

    @property
    def edges(self) -> list[float]:
        """Where the phases meet, from 0 to the end. Neighbouring stretches of one load are one phase."""
        phases = groupby(self.stretches, key=lambda stretch: stretch.load)
        lengths = (sum(stretch.end - stretch.start for stretch in phase) for _, phase in phases)
        return list(accumulate(lengths, initial=0.0))

    @property
    def uncounted(self) -> list[tuple[float, float]]:
        """(begin, end) of what no comparison has."""
        parts = zip(self._begins, self.stretches, strict=True)
        return [(begin, begin + stretch.uncounted) for begin, stretch in parts]

    @property
    def _begins(self) -> list[float]:
        """Where each stretch begins."""
        lengths = (stretch.end - stretch.start for stretch in self.stretches)
        return list(accumulate(lengths, initial=0.0))[:-1]

    def depths(self, statuses: Iterable[StatusSample]) -> list[tuple[float, int]]:
        """(seconds, K of the schedule in force at the load of that moment), from the status."""
        points = []
        for status in statuses:
            place = placed(self.stretches, status.time)
            if status.table and place is not None:
                stretch, seconds = place
                points.append((seconds, k_at(status.table, stretch.streams)))
        return points


def smoothed(counts: Sequence[Count]) -> list[float]:
    """Tokens per second over each count and its predecessors in the same stretch, SMOOTHED_COUNTS in all."""
    rates = []
    for index in range(len(counts)):
        recent = counts[max(0, index - SMOOTHED_COUNTS + 1) : index + 1]
        rates.append(sum(one.tokens for one in recent) / sum(one.seconds for one in recent))
    return rates


def draw_rates(axis: Axes, own: OwnTime, phases: Iterable[OwnPhase]) -> None:
    """Tokens per second, with the name of each phase above it."""
    label = f"Outrider, mean of {SMOOTHED_COUNTS} s"
    axis.step(own.times, own.rates, color=OUTRIDER, linewidth=1.2, label=label)
    for (left, right), phase in zip(pairwise(own.edges), phases, strict=True):
        place = ((left + right) / 2, 1.02)
        text = f"{phase.prompts}, {phase.streams}"
        axis.text(*place, text, transform=axis.get_xaxis_transform(), ha="center", color=GREY)
    axis.set_ylim(0, max(own.rates) * 1.3)
    axis.set_ylabel("tokens/s")


def shade_uncounted(axis: Axes, own: OwnTime) -> None:
    """What no comparison has, on a grey ground."""
    for begin, end in own.uncounted:
        label = "not compared: learning, ramps" if begin == 0 else None
        axis.axvspan(begin, end, color=LINE, alpha=0.45, linewidth=0, zorder=0, label=label)


def draw_concurrency(axis: Axes, own: OwnTime) -> None:
    """Streams over time."""
    axis.fill_between(own.times, own.streams, step="pre", color=GREY, alpha=0.35, linewidth=0)
    axis.set_yscale("log", base=2)
    axis.set_yticks(sorted(STREAMS), [str(count) for count in sorted(STREAMS)])
    axis.set_ylim(0.7, 1.5 * max(own.streams))
    axis.set_ylabel("streams")


def draw_draft_length(
    axis: Axes,
    own: OwnTime,
    statuses: Iterable[StatusSample],
    in_use: Iterable[StepsSample],
    candidates: Sequence[int],
) -> None:
    """Draw K in use, in the mean over the engine's steps, and K of the schedule at the load."""
    scheduled: dict[str, Any] = {"color": GREY, "linewidth": 1.0, "drawstyle": "steps-post"}
    used: dict[str, Any] = {"color": OUTRIDER, "linewidth": 1.6}
    for points, style, label in (
        (own.depths(statuses), scheduled, SCHEDULED_K),
        (own.placed((one.time, one.k) for one in in_use), used, USED_K),
    ):
        if points:
            axis.plot(*zip(*points, strict=True), label=label, **style)
    if axis.lines:
        axis.legend(loc="upper left", ncols=2, frameon=False)
    axis.set_yticks(candidates)
    axis.set_ylim(-0.4, max(candidates) * 1.4 + 0.4)
    axis.set_ylabel("K")


def share_time(axes: Iterable[Axes], own: OwnTime) -> None:
    """A line where phases meet, and the whole time, no more."""
    for axis in axes:
        for edge in own.edges[1:-1]:
            axis.axvline(edge, color=LINE, linewidth=0.8, zorder=0)
        axis.set_xlim(own.edges[0], own.edges[-1])
