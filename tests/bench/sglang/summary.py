"""Gain of each arm over the best fixed K of each phase, worst first. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

from tests.bench.sglang.engines import FIXED
from tests.bench.sglang.plan import CANDIDATES, Phase

Row = Mapping[str, object]
Sums = list[dict[str, object]]


def summary(rows: Sequence[Row], phases: Sequence[Phase]) -> Sums:
    """By phase and arm. Without fixed K there is nothing to compare, so gains are left out.

    gain, gains: mean and single runs, relative to the best fixed K of the same repeat, or of the first. That
    K is chosen afterwards, one for all loads of the phase.
    """
    arms = list(dict.fromkeys(str(row["arm"]) for row in rows if row["arm"] != FIXED))
    repeats = sorted({int(str(row["repeat"])) for row in rows})
    found: Sums = []
    for phase in phases:
        held = {repeat: _best(rows, phase, repeat) for repeat in repeats}
        known = [one for one in held.values() if one[1] > 0]
        best = {n: one if one[1] > 0 or not known else known[0] for n, one in held.items()}
        for arm in arms:
            rates = {repeat: _rate(rows, phase, arm, repeat) for repeat in repeats}
            gains = [rates[n] / best[n][1] - 1.0 for n in repeats if best[n][1] > 0]
            found.append(
                {
                    "phase": phase.name,
                    "arm": arm,
                    "best_fixed": [best[n][0] for n in repeats],
                    "tokens_per_second": [round(rate, 1) for rate in rates.values()],
                    "gain": round(mean(gains), 4) if gains else None,
                    "gains": [round(gain, 4) for gain in gains],
                }
            )
    return sorted(found, key=lambda one: float(str(one["gain"] or 0.0)))


def text(sums: Sums) -> str:
    """A table, in percent over the best fixed K."""
    lines = [f"{'phase':34s} {'arm':26s} {'gain':>7s}  runs, best fixed K"]
    for one in sums:
        gain, gains = one["gain"], one["gains"]
        shown = "-" if gain is None else f"{float(str(gain)):+.1%}"
        assert isinstance(gains, list)
        runs = ", ".join(f"{each:+.1%}" for each in gains)
        lines.append(f"{one['phase']!s:34s} {one['arm']!s:26s} {shown:>7s}  {runs}; {one['best_fixed']}")
    return "\n".join(lines)


def _rate(rows: Sequence[Row], phase: Phase, arm: str, repeat: int) -> float:
    return next(
        float(str(row["tokens_per_second"]))
        for row in rows
        if (row["arm"], row["repeat"], row.get("phase")) == (arm, repeat, phase.name)
    )


def _best(rows: Sequence[Row], phase: Phase, repeat: int) -> tuple[int, float]:
    """The K of most tokens per second over the loads of a phase, which last equally long; 0 without any."""
    rates = {
        (row["load"], row["k"]): float(str(row["tokens_per_second"]))
        for row in rows
        if row["arm"] == FIXED and row["repeat"] == repeat
    }
    means = {
        k: mean(rates[load.name, k] for load in phase.loads)
        for k in CANDIDATES
        if all((load.name, k) in rates for load in phase.loads)
    }
    if not means:
        return 0, 0.0
    best = max(means, key=lambda k: means[k])
    return best, means[best]
