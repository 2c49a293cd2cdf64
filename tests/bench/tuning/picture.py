"""Two pictures: regret of every policy with its spread over phases, and the sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from tests.bench.tuning.families import WITH_MAP, Row
from tests.bench.tuning.statistics import estimate, phases
from tests.bench.tuning.sweep import UNCHANGED

_GROUPS = (
    ("published tables", "stationary", "published"),
    ("synthetic tables", "stationary", "synthetic"),
    ("moving traffic", "moving", "events"),
)
"""Title, family, source."""


def draw(rows: Sequence[Row], path: Path) -> None:
    """Rows of the report half."""
    figure, axes = plt.subplots(2, 2, figsize=(14, 11), layout="constrained")
    for axis, (title, family, source) in zip(axes.flat, _GROUPS, strict=False):
        _bars(axis, [r for r in rows if (r["family"], r["source"]) == (family, source)], title)
    last = axes.flat[-1]
    for name, style in (("outrider", "-"), (WITH_MAP, "--")):
        for title, family, source in _GROUPS:
            group = [r for r in rows if (r["policy"], r["family"], r["source"]) == (name, family, source)]
            found = sorted(100 * x for x in phases(group, "regret"))
            shares = [i / len(found) for i in range(1, len(found) + 1)]
            last.plot(found, shares, style, label=f"{name}, {title}")
    last.set(xlabel="regret of a phase after 120 s, %", ylabel="share of phases", title="the law")
    last.legend()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def draw_sweep(rows: Sequence[Row], path: Path) -> None:
    """One line per change of a constant, tall enough for its name."""
    names = sorted({str(row["change"]) for row in rows})
    figure, axes = plt.subplots(1, 2, figsize=(16, 2 + 0.2 * len(names)), layout="constrained")
    for axis, family in zip(axes, ("stationary", "moving"), strict=True):
        _sweep(axis, [row for row in rows if row["family"] == family], family)
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
    for name in sorted({str(row["change"]) for row in rows}):
        mean = 100 * estimate([r for r in rows if r["change"] == name], "overall_regret").mean
        axis.plot(mean, name, "o", color="tab:orange" if name == UNCHANGED else "tab:blue")
    axis.tick_params(axis="y", labelsize=9)
    axis.set(xlabel="regret, whole phases, %", title=f"{family}, tune half: one constant changed at a time")
    axis.margins(x=0.1)
    axis.set_xlim(left=0)
