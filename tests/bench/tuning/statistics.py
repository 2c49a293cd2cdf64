"""From rows to figures with intervals, and the figures to reach."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tests.bench.tuning.families import WITH_MAP, Row


@dataclass(frozen=True)
class Estimate:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.mean:.2f} % [{100 * self.low:.2f}, {100 * self.high:.2f}]"


def number(row: Mapping[str, object], key: str) -> float | None:
    """A figure of a row; None where there is none."""
    value = row[key]
    return None if value is None else float(value)  # type: ignore[arg-type]


def estimate(rows: Iterable[Row], key: str) -> Estimate:
    """Mean over tables and traces. The interval is normal, over seeds: each seed gives one mean."""
    by_seed: dict[object, list[float]] = defaultdict(list)
    for row in rows:
        value = number(row, key)
        if value is not None:
            by_seed[row["seed"]].append(value)
    means = [float(np.mean(values)) for values in by_seed.values()]
    if not means:
        return Estimate(float("nan"), float("nan"), float("nan"))
    middle = float(np.mean(means))
    error = float(np.std(means, ddof=1) / np.sqrt(len(means))) if len(means) > 1 else 0.0
    return Estimate(middle, middle - 1.96 * error, middle + 1.96 * error)


def phases(rows: Iterable[Row], key: str) -> list[float]:
    """One figure of every phase that has it."""
    found = []
    for row in rows:
        entries = row["phases"]
        assert isinstance(entries, Sequence)
        found += [float(phase[key]) for phase in entries if phase[key] is not None]
    return found


def never(rows: Iterable[Row]) -> int:
    """Phases in which 95 % of the optimum was not reached."""
    entries = [phase for row in rows for phase in row["phases"]]  # type: ignore[attr-defined]
    return sum(phase["seconds_to_optimum"] is None for phase in entries)


def values(rows: Iterable[Row], key: str) -> list[float]:
    """One figure of every row that has it."""
    return [value for row in rows if (value := number(row, key)) is not None]


@dataclass(frozen=True)
class Target:
    """A figure to reach; measured on Outrider's rows of the report half."""

    family: str
    words: str
    limit: float
    measure: Callable[[Sequence[Row]], float]
    percent: bool = True
    at_least: bool = False
    policy: str = "outrider"

    def line(self, rows: Sequence[Row]) -> dict[str, object]:
        """Measured, wanted, and whether it is met."""
        value = self.measure(rows)
        met = value >= self.limit if self.at_least else value <= self.limit
        return {
            "family": self.family,
            "policy": self.policy,
            "figure": self.words,
            "limit": self.limit,
            "value": value,
            "met": bool(met),
        }


def _largest(found: Sequence[float]) -> float:
    return max(found) if found else float("nan")


def _mean(found: Sequence[float]) -> float:
    return float(np.mean(found)) if found else float("nan")


def _covered_runs(rows: Sequence[Row]) -> float:
    """Share of decisions whose interval of the speedup holds the truth, mean over runs."""
    return _mean(values(rows, "coverage"))


def _percentile(found: Sequence[float], share: float) -> float:
    return float(np.percentile(found, share)) if found else float("nan")


def _mean_width(rows: Sequence[Row]) -> float:
    return _mean(values(rows, "speedup_width"))


TARGETS = (
    Target("stationary", "mean regret, overall", 0.008, lambda r: estimate(r, "overall_regret").mean),
    Target("stationary", "mean regret, steady", 0.004, lambda r: estimate(r, "regret").mean),
    Target("stationary", "95th percentile of phases", 0.03, lambda r: _percentile(phases(r, "regret"), 95)),
    Target("stationary", "worst phase", 0.06, lambda r: _largest(phases(r, "regret"))),
    Target("stationary", "worst loss over 120 s", 0.02, lambda r: _largest(values(r, "worst_loss"))),
    Target("steady", "mean switches in an hour", 6.0, lambda r: _mean(values(r, "switches")), percent=False),
    Target(
        "steady", "most switches in an hour", 6.0, lambda r: _largest(values(r, "switches")), percent=False
    ),
    Target("steady", "probes after 120 s", 0.03, lambda r: _mean(values(r, "steady_probe_share"))),
    Target("stationary", "probes in steady state", 0.03, lambda r: _mean(values(r, "steady_probe_share"))),
    Target(
        "stationary",
        "off the table in the first 120 s, s",
        30.0,
        lambda r: _largest(values(r, "calibration_seconds")),
        percent=False,
    ),
    Target("stationary", "speedup interval covers", 0.95, _covered_runs, at_least=True),
    Target("moving", "mean regret", 0.03, lambda r: estimate(r, "regret").mean),
    Target(
        "moving",
        "mean seconds to 95 % of the optimum",
        60.0,
        lambda r: _mean(phases(r, "seconds_to_optimum")),
        percent=False,
    ),
    Target(
        "moving",
        "phases that never got there",
        0.0,
        lambda r: float(never(r)),
        percent=False,
    ),
    Target("moving", "mean width of the speedup interval", 0.5, _mean_width),
    Target("moving", "speedup interval covers", 0.95, _covered_runs, at_least=True),
    Target("moving", "worst loss over 120 s", 0.02, lambda r: _largest(values(r, "worst_loss"))),
    Target("moving", "probes in steady state", 0.03, lambda r: _mean(values(r, "steady_probe_share"))),
)
"""What the law is measured by, on the report half."""


def _mapped(
    family: str, words: str, limit: float, measure: Callable[[Sequence[Row]], float], **more: bool
) -> Target:
    return Target(family, words, limit, measure, policy=WITH_MAP, **more)


MAP_TARGETS = (
    _mapped("stationary", "mean regret, overall", 0.002, lambda r: estimate(r, "overall_regret").mean),
    _mapped("stationary", "mean regret, steady", 0.0012, lambda r: estimate(r, "regret").mean),
    _mapped("stationary", "95th percentile of phases", 0.01, lambda r: _percentile(phases(r, "regret"), 95)),
    _mapped("stationary", "worst phase", 0.03, lambda r: _largest(phases(r, "regret"))),
    _mapped("stationary", "worst loss over 120 s", 0.015, lambda r: _largest(values(r, "worst_loss"))),
    _mapped(
        "stationary",
        "off the table in the first 120 s, s",
        10.0,
        lambda r: _mean(values(r, "calibration_seconds")),
        percent=False,
    ),
    _mapped("stationary", "speedup interval covers", 0.95, _covered_runs, at_least=True),
    _mapped("moving", "mean regret, overall", 0.005, lambda r: estimate(r, "overall_regret").mean),
    _mapped("moving", "mean regret, steady", 0.004, lambda r: estimate(r, "regret").mean),
    _mapped("moving", "worst loss over 120 s", 0.03, lambda r: _largest(values(r, "worst_loss"))),
    _mapped("moving", "speedup interval covers", 0.95, _covered_runs, at_least=True),
)
"""The same of the law with a map of 3 % error."""


def hindsight(rows: Sequence[Row]) -> list[Row]:
    """The best static K of every table and trace, chosen with hindsight."""
    by_case: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if str(row["policy"]).startswith("static:"):
            by_case[row["family"], row["case"], row["trace"], row["seed"], row["half"]].append(row)
    best = (min(group, key=lambda row: number(row, "overall_regret") or 0.0) for group in by_case.values())
    return [{**row, "policy": "static:best"} for row in best]
