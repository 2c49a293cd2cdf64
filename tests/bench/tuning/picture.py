"""One picture: regret of every policy, spread over phases, and the sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from tests.bench.tuning.families import Row
from tests.bench.tuning.statistics import estimate, phases
from tests.bench.tuning.sweep import UNCHANGED

_GROUPS = (
    ("published tables", "stationary", "published"),
    ("synthetic tables", "stationary", "synthetic"),
    ("moving traffic", "moving", "events"),
)
"""Title, family, source."""


def draw(rows: Sequence[Row], sweep: Sequence[Row], path: Path) -> None:
    """Rows of the report half; rows of the sweep, which may be none."""
    figure, axes = plt.subplots(2, 3, figsize=(18, 11), layout="constrained")
    for axis, (title, family, source) in zip(axes[0], _GROUPS, strict=True):
        _bars(axis, [r for r in rows if (r["family"], r["source"]) == (family, source)], title)
    mine = [row for row in rows if row["policy"] == "outrider"]
    for title, family, source in _GROUPS:
        group = [r for r in mine if (r["family"], r["source"]) == (family, source)]
        found = sorted(100 * x for x in phases(group, "regret"))
        axes[1][0].plot(found, [i / len(found) for i in range(1, len(found) + 1)], label=title)
    axes[1][0].set(xlabel="regret of a phase after 120 s, %", ylabel="share of phases", title="outrider")
    axes[1][0].legend()
    for axis, family in zip(axes[1][1:], ("stationary", "moving"), strict=True):
        _sweep(axis, [row for row in sweep if row["family"] == family], family)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _bars(axis: Axes, rows: Sequence[Row], title: str) -> None:
    names = {str(row["policy"]) for row in rows}
    found = {name: estimate([r for r in rows if r["policy"] == name], "overall_regret") for name in names}
    order = sorted(found, key=lambda name: found[name].mean)
    means = [100 * found[name].mean for name in order]
    errors = [100 * (found[name].high - found[name].mean) for name in order]
    colours = ["tab:blue" if name.startswith("outrider") else "tab:gray" for name in order]
    axis.barh(order[::-1], means[::-1], xerr=errors[::-1], color=colours[::-1])
    axis.set(xlabel="regret, whole phases, %", title=f"{title}, report half, 95 % intervals over seeds")


def _sweep(axis: Axes, rows: Sequence[Row], family: str) -> None:
    if not rows:
        axis.set_axis_off()
        return
    for name in sorted({str(row["change"]) for row in rows}):
        mean = 100 * estimate([r for r in rows if r["change"] == name], "overall_regret").mean
        axis.plot(mean, name, "o", color="tab:orange" if name == UNCHANGED else "tab:blue")
    axis.tick_params(axis="y", labelsize=6)
    axis.set(xlabel="regret, whole phases, %", title=f"{family}, tune half: one constant changed at a time")
    axis.margins(x=0.1)
    axis.set_xlim(left=0)
