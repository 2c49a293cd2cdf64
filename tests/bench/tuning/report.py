"""The summary of a run, as data and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isnan

from outrider.tuning.policy import Policy
from tests.bench.tuning.families import Row
from tests.bench.tuning.statistics import (
    MAP_TARGETS,
    TARGETS,
    Estimate,
    estimate,
    hindsight,
    never,
    phases,
    values,
)

_GROUPS = (("stationary", "published"), ("stationary", "synthetic"), ("moving", "events"))
"""Family and source in which policies are compared."""


def summary(
    rows: Sequence[Row],
    sweep: Sequence[Row],
    speed: Sequence[Mapping[str, object]],
    *,
    seeds: int,
    seconds: float,
) -> dict[str, object]:
    """Targets, every policy, every table, the sweep, and the law's parameters."""
    report = [row for row in rows if row["half"] == "report"]
    everyone = [*report, *hindsight(report)]
    return {
        "seeds": seeds,
        "seconds": seconds,
        "parameters": _parameters(),
        "targets": _targets(report),
        "ahead": ahead(everyone),
        "policies": _policies(everyone),
        "cases": _cases(rows),
        "sweep": _sweep(sweep),
        "speed": list(speed),
    }


def _parameters() -> dict[str, object]:
    default = Policy(candidates=(0, 1, 2, 3, 5), max_num_seqs=64)
    named = {"candidates": default.candidates, "max_num_seqs": default.max_num_seqs, **default.numbers}
    return {name: repr(value) for name, value in named.items()}


def _of(rows: Sequence[Row], **wanted: str) -> list[Row]:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def _targets(report: Sequence[Row]) -> list[dict[str, object]]:
    """The published tables count; synthetic ones are shown beside them."""
    lines = []
    for target in (*TARGETS, *MAP_TARGETS):
        sources = ("events",) if target.family == "moving" else ("published", "synthetic")
        for source in sources:
            mine = _of(report, family=target.family, source=source, policy=target.policy)
            lines.append({"source": source, **target.line(mine), "percent": target.percent})
    return lines


def ahead(report: Sequence[Row]) -> list[dict[str, object]]:
    """Outrider against every other policy except the oracle, on the mean over tables."""
    lines = []
    for family, source in _GROUPS:
        group = _of(report, family=family, source=source)
        names = sorted({name for row in group if not (name := str(row["policy"])).startswith("outrider")})
        for name in names:
            theirs = _of(group, policy=name)
            cases = {(row["case"], row["trace"]) for row in theirs}
            mine = [r for r in _of(group, policy="outrider") if (r["case"], r["trace"]) in cases]
            own, other = estimate(mine, "overall_regret").mean, estimate(theirs, "overall_regret").mean
            lines.append(
                {
                    "source": source,
                    "policy": name,
                    "regret": other,
                    "outrider": own,
                    "ahead": bool(own < other),
                }
            )
    return lines


def _policies(report: Sequence[Row]) -> list[dict[str, object]]:
    lines = []
    for family, source in (*_GROUPS, ("steady", "published"), ("steady", "synthetic")):
        group = _of(report, family=family, source=source)
        found = [
            {"family": family, "source": source, "policy": name, **_line(_of(group, policy=name))}
            for name in sorted({str(row["policy"]) for row in group})
        ]
        lines += sorted(found, key=lambda line: line["overall"]["mean"])  # type: ignore[index]
    return lines


def _cases(rows: Sequence[Row]) -> list[dict[str, object]]:
    mine = _of(rows, policy="outrider")
    keys = sorted({(str(r["half"]), str(r["family"]), str(r["case"]), str(r["trace"])) for r in mine})
    return [
        {"half": half, "case": case, "trace": trace, **_line(_of(mine, half=half, case=case, trace=trace))}
        for half, _, case, trace in keys
    ]


def _line(rows: Sequence[Row]) -> dict[str, object]:
    waits = phases(rows, "seconds_to_optimum")
    return {
        "runs": len(rows),
        "overall": asdict(estimate(rows, "overall_regret")),
        "steady": asdict(estimate(rows, "regret")),
        "worst_phase": max(phases(rows, "regret"), default=None),
        "worst_loss": max(values(rows, "worst_loss"), default=None),
        "switches_per_hour": _mean(values(rows, "switches_per_hour")),
        "steady_probe_share": _mean(values(rows, "steady_probe_share")),
        "seconds_to_optimum": _mean(waits),
        "never": never(rows),
    }


def _mean(found: Sequence[float]) -> float | None:
    return sum(found) / len(found) if found else None


def _sweep(rows: Sequence[Row]) -> list[dict[str, object]]:
    keys = sorted({(str(row["family"]), str(row["change"])) for row in rows})
    return [
        {"family": family, "change": change, **_line(_of(rows, family=family, change=change))}
        for family, change in keys
    ]


def text(found: Mapping[str, object]) -> str:
    """For a terminal."""
    lines = [f"{found['seeds']} seeds, {found['seconds']:.0f} s", "", "figures to reach (report half)"]
    lines += [f"  {_target_text(line)}" for line in found["targets"]]  # type: ignore[attr-defined]
    lines += ["", "times real time, one core"]
    lines += [f"  {_speed_text(line)}" for line in found["speed"]]  # type: ignore[attr-defined]
    lines += ["", "ahead of every baseline, whole phases"]
    lines += [f"  {_ahead_text(line)}" for line in found["ahead"]]  # type: ignore[attr-defined]
    for title, key in (
        ("policies, report half", "policies"),
        ("outrider by case", "cases"),
        ("sweep", "sweep"),
    ):
        rows = found[key]
        if rows:
            lines += ["", title, *(f"  {_line_text(line)}" for line in rows)]  # type: ignore[attr-defined]
    return "\n".join(lines)


def _speed_text(line: Mapping[str, object]) -> str:
    word = "met" if line["met"] else "not met"
    name = f"{line['engine']} with {line['policy']}"
    return f"{name:24s} {line['value']:8.0f}  wanted {line['limit']:.0f}  {word}"


def _target_text(line: Mapping[str, object]) -> str:
    scale, unit = (100.0, " %") if line["percent"] else (1.0, "")
    value, limit = float(line["value"]), float(line["limit"])  # type: ignore[arg-type]
    shown = "no data" if isnan(value) else f"{scale * value:.2f}{unit}"
    met = "met" if line["met"] else "not met"
    name = f"{line['policy']}, {line['family']}, {line['source']}: {line['figure']}"
    return f"{name:76s} {shown:>10s}  wanted {scale * limit:g}{unit:2s}  {met}"


def _ahead_text(line: Mapping[str, object]) -> str:
    own, other = 100 * float(line["outrider"]), 100 * float(line["regret"])  # type: ignore[arg-type]
    word = "met" if line["ahead"] else "not met"
    return f"{line['source']:10s} {line['policy']:14s} {other:6.2f} %  outrider {own:5.2f} %  {word}"


def _line_text(line: Mapping[str, object]) -> str:
    keys = ("half", "family", "source", "policy", "case", "trace", "change")
    name = " ".join(str(line[key]) for key in keys if key in line)
    overall, steady = (Estimate(**line[key]) for key in ("overall", "steady"))  # type: ignore[arg-type]
    worst, loss, probes = (
        100 * float(line[key] or 0.0)  # type: ignore[arg-type]
        for key in ("worst_phase", "worst_loss", "steady_probe_share")
    )
    wait = line["seconds_to_optimum"]
    shown = "-" if wait is None else f"{wait:.0f} s"
    return (
        f"{name:46s} overall {overall!s:24s} steady {steady!s:24s} worst {worst:5.1f} % "
        f"loss {loss:6.1f} % switches/h {line['switches_per_hour']:.1f} probes {probes:.1f} % "
        f"95 % in {shown}, never {line['never']}"
    )
