"""The picture: tokens per second and K over the trace, and regret as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from examples.kit.records import Stretch, during
from examples.kit.status import k_at
from examples.kit.style import GREY, LINE, OUTRIDER, STYLE, ZERO
from tests.bench.engine.figures import Analysis, ArmFigures, Interval
from tests.bench.engine.plan import HAND, NONE, PROFILED, RULES
from tests.bench.engine.plan import OUTRIDER as OUTRIDER_ARM
from tests.bench.engine.rates import runs_of
from tests.bench.engine.records import UnitRecord
from tests.bench.engine.result import Result
from tests.bench.engine.trace import Trace

if TYPE_CHECKING:
    # Collecting the tests or printing a table need not wait for this import.
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RIVAL_COLOURS = ("#D55E00", "#CC79A7", "#009E73")
"""Limit of policies in the picture, because more lines cannot be distinguished."""
TITLES = {
    NONE: "no drafter (another launch)",
    HAND: "rule-of-thumb schedule",
    PROFILED: "vLLM's schedule, from an offline profile",
    "acceptance": "acceptance thresholds",
    "acceptance-off": "off below a rate",
    "length-off": "off below a length",
    "ema": "EMA of accepted length",
    "sglang": "SGLang's adaptive mode",
    "sglang-throughput": "SGLang, throughput-aware",
    "ucb-specstop": "UCB-SpecStop",
    "turbospec": "TurboSpec, from an offline profile",
    "model": "model only",
    OUTRIDER_ARM: "Outrider",
}
SMOOTHED_SECONDS = 5


def save(analysis: Analysis, result: Result, path: Path) -> Path:
    """Draw and write the picture; the suffix of the path gives the format."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        draw(analysis, result).savefig(path)
    return path


def draw(analysis: Analysis, result: Result) -> Figure:
    """Two panels over one time axis, and the bars below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 11), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=[1.6, 1])
    rates, depths = halves[0].subplots(2, 1, sharex=True, height_ratios=[1.6, 1])
    starts = [0.0, *accumulate(phase.seconds for phase in analysis.trace)]
    _levels(rates, analysis, starts)
    runs, colours = runs_of(analysis.units), _colours(result)
    for place, (policy, colour) in enumerate(colours.items()):
        style = {"color": colour, "linewidth": 2.0 if policy == OUTRIDER_ARM else 1.2}
        _throughput(rates, policy, runs[policy], starts, style)
        _draft_length(depths, runs[policy][0], starts, style, offset=0.06 * place)
    _phases(rates, analysis.trace, starts)
    rates.set_ylabel("tokens/s")
    rates.set_ylim(0, 1.15 * rates.get_ylim()[1])
    rates.legend(loc="upper left", ncols=6, frameon=False, fontsize=8)
    rates.set_title(f"Tokens per second of all streams, mean of repeats and of {SMOOTHED_SECONDS} s", pad=20)
    depths.set_yticks(result.conditions.candidates)
    depths.set_ylim(-0.4, max(result.conditions.candidates) + 0.4)
    depths.set_ylabel("K")
    depths.set_title("K in force at the load of the moment, first repeat (lines moved apart to be seen)")
    depths.set_xlabel("seconds of load")
    for axis in (rates, depths):
        for edge in starts[1:-1]:
            axis.axvline(edge, color=LINE, linewidth=0.8, zorder=0)
        axis.margins(x=0)
    _bars(halves[1].subplots(), result.figures.arms, colours)
    return figure


def _colours(result: Result) -> dict[str, str]:
    """Outrider and the rules that had most tokens."""
    drawn = [arm.arm for arm in result.figures.arms if arm.arm in (*RULES, OUTRIDER_ARM)]
    rules = [arm for arm in drawn if arm != OUTRIDER_ARM]
    own = {OUTRIDER_ARM: OUTRIDER} if OUTRIDER_ARM in drawn else {}
    return own | dict(zip(rules, RIVAL_COLOURS, strict=False))


def _levels(axis: Axes, analysis: Analysis, starts: Sequence[float]) -> None:
    """What the oracle policy and an engine without a drafter reach in each phase."""
    none = analysis.arms.get(NONE)
    for index, phase in enumerate(analysis.trace):
        span = (starts[index], starts[index + 1])
        best = analysis.best.get(phase.load.name)
        if best is not None:
            label = "oracle policy" if index == 0 else ""
            axis.hlines(best.value, *span, color="black", linestyle="--", linewidth=1.2, label=label)
        if none is not None:
            label = TITLES[NONE] if index == 0 else ""
            axis.hlines(none.whole[index], *span, color=ZERO, linestyle=":", linewidth=2, label=label)


def _throughput(
    axis: Axes, policy: str, runs: Sequence[UnitRecord], starts: Sequence[float], style: dict[str, Any]
) -> None:
    for index, start in enumerate(starts[:-1]):
        rates = [_by_second(run.stretches[index]) for run in runs]
        length = min(map(len, rates))
        middle = np.mean([one[:length] for one in rates], axis=0)
        times = start + np.arange(1, length + 1)
        axis.plot(times, smoothed(middle), label=title(policy) if index == 0 else None, **style)


def _by_second(stretch: Stretch) -> list[float]:
    return [one.tokens / one.seconds for one in stretch.counts if one.seconds > 0.5]


def smoothed(values: Sequence[float]) -> list[float]:
    """Each value's mean with its predecessors, SMOOTHED_SECONDS in all."""
    return [float(np.mean(values[max(0, i - SMOOTHED_SECONDS + 1) : i + 1])) for i in range(len(values))]


def _draft_length(
    axis: Axes, run: UnitRecord, starts: Sequence[float], style: dict[str, Any], *, offset: float
) -> None:
    for start, stretch in zip(starts, run.stretches, strict=False):
        seen = [one for one in during(run.statuses, stretch) if one.table]
        if seen:
            times = [start + one.time - stretch.start for one in seen]
            depths = [k_at(one.table or "", stretch.streams) + offset for one in seen]
            axis.step(
                [*times, start + stretch.end - stretch.start], [*depths, depths[-1]], where="post", **style
            )


def _phases(axis: Axes, trace: Trace, starts: Sequence[float]) -> None:
    for index, phase in enumerate(trace):
        middle = (starts[index] + starts[index + 1]) / 2
        axis.text(
            middle, 1.02, phase.load.name, transform=axis.get_xaxis_transform(), ha="center", color=GREY
        )


def _bars(axis: Axes, arms: Sequence[ArmFigures], colours: Mapping[str, str]) -> None:
    """Best arm first, whole phases beside settled ones."""
    shown = [arm for arm in arms if arm.regret_whole is not None]
    if not shown:
        axis.set_axis_off()
        axis.set_title("No regret to show: no K was measured in two rounds of each load")
        return
    shown.sort(key=lambda arm: arm.regret_whole.value if arm.regret_whole else 0.0)
    for place, arm in enumerate(shown):
        colour = colours.get(arm.arm, ZERO if arm.arm == NONE else GREY)
        _bar(axis, place - 0.2, arm.regret_whole, colour, alpha=1.0)
        _bar(axis, place + 0.2, arm.regret_settled, colour, alpha=0.5)
    axis.axhline(0, color=GREY, linewidth=0.8)
    axis.set_xticks(range(len(shown)), [fill(title(arm.arm), 11) for arm in shown], fontsize=8)
    axis.set_ylabel("mean regret, %")
    axis.set_title("Regret to the oracle policy: whole phases (dark), after 30 s (light); whiskers: 95 %")


def title(arm: str) -> str:
    """How pages and the picture call an arm."""
    return f"fixed K = {arm}" if arm.isdecimal() else TITLES[arm]


def _bar(axis: Axes, place: float, regret: Interval | None, colour: str, *, alpha: float) -> None:
    if regret is None:
        return
    error = [[100 * max(0.0, regret.value - regret.low)], [100 * max(0.0, regret.high - regret.value)]]
    whiskers = {"capsize": 2, "linewidth": 1}
    axis.bar(place, 100 * regret.value, 0.38, color=colour, alpha=alpha, yerr=error, error_kw=whiskers)
    axis.annotate(
        f"{100 * regret.value:.1f}",
        (place, 100 * max(regret.high, 0.0)),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
        fontsize=8,
    )
