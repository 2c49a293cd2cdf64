"""The chart of ``outrider simulate --plot``: goodput and K over time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from outrider.pictures.charts import Line, Panel, lines_chart, standalone
from outrider_lab.figures import Curve, Figures
from outrider_lab.replay import Replay

_POINTS = 60
"""Windows of a phase; few, so that the file stays small."""

Runs = Sequence[tuple[str, str, Replay, Figures]]
"""Each with the names of its table and of its policy."""


def picture(runs: Runs, *, dwell: float) -> str:
    """Two panels per table, each policy a line. dwell: seconds of a phase."""
    panels: list[Panel] = []
    for table in dict.fromkeys(run[0] for run in runs):
        own = [run for run in runs if run[0] == table]
        shares = [Line(policy, list(_shares(replay, found, dwell))) for _, policy, replay, found in own]
        depths = [Line(policy, list(_depths(replay)), steps=True) for _, policy, replay, _ in own]
        panels.append(Panel(f"{table}: goodput in % of the best single K of each load", shares))
        panels.append(Panel(f"{table}: K at the present load", depths))
    label = "Goodput and K over time, simulated, by policy"
    return standalone(lines_chart(panels, axis="seconds, simulated", alt=label))


def _shares(replay: Replay, found: Figures, dwell: float) -> Iterator[tuple[float, float]]:
    """Goodput in windows that lie within one phase."""
    curve = Curve.of(replay.spans)
    for index, phase in enumerate(found.phases):
        edges = np.linspace(index * dwell, (index + 1) * dwell, _POINTS + 1)
        for begin, end in pairwise(edges):
            rate = float(curve.goodput(begin, end))
            if np.isfinite(rate):
                yield float(begin + end) / 2, 100.0 * rate / phase.best_goodput


def _depths(replay: Replay) -> Iterator[tuple[float, float]]:
    before: int | None = None
    for step in replay.steps:
        k = None if step.batch_size is None else step.schedule.k_at_mean(step.batch_size)
        if k is not None and k != before:
            yield step.at, k
            before = k
    if before is not None:
        yield replay.steps[-1].at, before
