"""Figures of all runs: means over repetitions, with the smallest and largest repetition as their spread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import mean
from typing import Any

from tests.bench.traffic.engines import HEADLINE_OVERHEAD
from tests.bench.traffic.runs import HINDSIGHT, NO_DRAFTER, OUTRIDER, OWN, VERIFYING

Row = Mapping[str, Any]
GAIN, WARM = "gain", "warm"
"""The gain of a whole run, and that without its first minute."""
BEHIND_BEST, BELOW_NONE, SETTLED_REGRET, SPREAD, COVERAGE, WIDTH = 0.015, 0.02, 0.01, 0.01, 0.95, 0.06
"""Limits of the goals of this comparison."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean over repetitions, and the smallest and largest of them."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal. words: what was reached, for people."""

    name: str
    limit: str
    words: str
    met: bool


def at(rows: Iterable[Row], overhead: float) -> list[Row]:
    """Rows of one overhead."""
    return [row for row in rows if row["overhead"] == overhead]


def gains(rows: Sequence[Row], rule: str, figure: str = GAIN) -> Spread:
    """Geometric mean over engines and kinds of the speed over a launch without a drafter, less 1."""
    return over_repetitions(rows, lambda some: geometric([_gain(row, rule, figure) for row in some]))


def over_repetitions(rows: Sequence[Row], figure: Callable[[Sequence[Row]], float]) -> Spread:
    """A figure of each repetition."""
    numbers = sorted({row["number"] for row in rows})
    each = [figure([row for row in rows if row["number"] == number]) for number in numbers]
    return Spread(mean(each), min(each), max(each))


def geometric(values: Iterable[float]) -> float:
    """Geometric mean of gains."""
    return exp(mean(log(1.0 + value) for value in values)) - 1.0


def rules(rows: Sequence[Row]) -> list[str]:
    """Rules that ran in every row, and a launch without a drafter."""
    everywhere = set.intersection(*(set(row["found"]) for row in rows))
    return [*sorted(everywhere - set(HINDSIGHT), key=lambda rule: -gains(rows, rule).mean), NO_DRAFTER]


def behind_best(rows: Sequence[Row], key: str, figure: str = GAIN) -> dict[str, tuple[str, float]]:
    """By kind or engine: the best rule that is not Outrider's, and how far Outrider's speed is behind it.

    A launch without a drafter is such a rule. Adaptive verification takes part where every engine has it.
    """
    found = {}
    for name in dict.fromkeys(str(row[key]) for row in rows):
        own = [row for row in rows if row[key] == name]
        mine = geometric(_gain(row, OUTRIDER, figure) for row in own)
        rivals = [rule for rule in rules(own) if rule not in (*OWN, VERIFYING[1])]
        speeds = {rule: geometric(_gain(row, rule, figure) for row in own) for rule in rivals}
        best = max(speeds, key=lambda rule: speeds[rule])
        other = speeds[best]
        found[name] = (best, 1.0 - (1.0 + mine) / (1.0 + other))
    return found


def worst_cells(rows: Sequence[Row], figure: str = GAIN) -> list[tuple[str, str, Spread]]:
    """Engine, kind and Outrider's gain, the worst first."""
    cells = dict.fromkeys((row["engine"], row["kind"]) for row in rows)
    found = []
    for engine, kind in cells:
        own = [row for row in rows if (row["engine"], row["kind"]) == (engine, kind)]
        found.append((engine, kind, over_repetitions(own, lambda some: _gain(some[0], OUTRIDER, figure))))
    return sorted(found, key=lambda cell: cell[2].mean)


def worst_phases(rows: Sequence[Row], rule: str = OUTRIDER) -> list[dict[str, Any]]:
    """Phases of all runs by regret, the worst first."""
    found = [
        {**phase, **{name: row[name] for name in ("engine", "kind", "number")}}
        for row in rows
        for phase in row["found"][rule]["phases"]
    ]
    return sorted(found, key=lambda phase: -phase["regret"])


def settled(rows: Sequence[Row], rule: str = OUTRIDER) -> Spread:
    """Mean regret after 30 s of phases that are longer."""

    def figure(some: Sequence[Row]) -> float:
        phases = [phase for row in some for phase in row["found"][rule]["phases"]]
        return float(mean(phase["settled"] for phase in phases if phase["settled"] is not None))

    return over_repetitions(rows, figure)


def reported(rows: Sequence[Row], field: str, rule: str = OUTRIDER) -> Spread:
    """Mean of `coverage` or `width` over runs that reported a speedup."""

    def figure(some: Sequence[Row]) -> float:
        values = [row["found"][rule][field] for row in some]
        return float(mean(value for value in values if value is not None))

    return over_repetitions(rows, figure)


def goals(rows: Sequence[Row], figure: str = GAIN) -> list[Goal]:
    """What the comparison is held to, at the headline's overhead."""
    own = at(rows, HEADLINE_OVERHEAD)
    regret, coverage, width = settled(own), reported(own, "coverage"), reported(own, "width")
    return [
        _first(own, figure),
        _close(own, figure),
        _safe(own, figure),
        Goal(
            "regret after 30 s, mean of phases",
            f"at most {100 * SETTLED_REGRET:g} %",
            f"{100 * regret.mean:.2f} %",
            regret.mean <= SETTLED_REGRET,
        ),
        Goal(
            "its spread between repetitions",
            f"at most {100 * SPREAD:g} %",
            f"{100 * (regret.high - regret.low):.2f} %",
            regret.high - regret.low <= SPREAD,
        ),
        Goal(
            "reported speedups whose interval has the truth",
            f"at least {100 * COVERAGE:g} %",
            f"{100 * coverage.mean:.1f} %",
            coverage.mean >= COVERAGE,
        ),
        Goal(
            "mean width of that interval, once a canary has run",
            f"at most {100 * WIDTH:g} %",
            f"{100 * width.mean:.0f} % without a canary; no run had one",
            met=False,
        ),
    ]


def _first(rows: Sequence[Row], figure: str) -> Goal:
    speeds = {rule: gains(rows, rule, figure).mean for rule in rules(rows) if rule not in OWN[1:]}
    second = max((rule for rule in speeds if rule != OUTRIDER), key=lambda rule: speeds[rule])
    ahead = 100 * (speeds[OUTRIDER] - speeds[second])
    place = "first" if ahead > 0 else "not first"
    words = f"{place}, {ahead:+.1f} points against {second}"
    return Goal("geometric mean of all engines and kinds", "first", words, ahead > 0)


def _close(rows: Sequence[Row], figure: str) -> Goal:
    kinds = behind_best(rows, "kind", figure)
    kind, (rule, behind) = max(kinds.items(), key=lambda pair: pair[1][1])
    words = f"{100 * behind:.1f} % in {kind}, behind {rule}"
    limit = f"at most {100 * BEHIND_BEST:g} %"
    return Goal("behind the best rule of a kind", limit, words, behind <= BEHIND_BEST)


def _safe(rows: Sequence[Row], figure: str) -> Goal:
    engine, kind, worst = worst_cells(rows, figure)[0]
    words = f"{-100 * worst.mean:.1f} % in {kind} on {engine}"
    limit = f"at most {100 * BELOW_NONE:g} %"
    return Goal("below a launch without a drafter", limit, words, -worst.mean <= BELOW_NONE)


def _gain(row: Row, rule: str, figure: str = GAIN) -> float:
    return 0.0 if rule == NO_DRAFTER else float(row["found"][rule][figure])
