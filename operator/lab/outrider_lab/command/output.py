"""The output of ``outrider simulate``: one line per run for people, everything for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isfinite

from pydantic import JsonValue

from outrider_lab.command.subjects import Subject
from outrider_lab.figures import Figures
from outrider_lab.limits import LimitFigures

_COLUMNS = ("table", "policy", "tok/s", "regret", "overall", "worst loss", "switches", "probes", "to 95 %")

_UNDER_A_LIMIT = ("broken", "within")

Results = Sequence[tuple[Subject, str, Figures, LimitFigures | None]]
"""Each with the name of its policy, and with figures under the limit on latency if there is one."""


def json_of(given: Mapping[str, JsonValue], results: Results) -> dict[str, object]:
    """All results for programs. given: the setting. ``table`` names a formula where one was replayed."""
    rows = [
        {
            "table": subject.name,
            "policy": tuner,
            "mean_goodput": f.goodput,
            "regret_after_120_s": f.regret,
            "regret_overall": f.overall_regret,
            "worst_loss_against_no_speculation": f.worst_loss,
            "switches": f.switches,
            "probe_share": f.probe_share,
            "seconds_to_95_percent": f.seconds_to_optimum,
            "extrapolated_loads": list(subject.extrapolated),
            "phases": [asdict(phase) for phase in f.phases],
            **({} if limited is None else {"under_latency_limit": _finite(asdict(limited))}),
        }
        for subject, tuner, f, limited in results
    ]
    return {"setting": dict(given), "results": rows}


def as_text(results: Results) -> str:
    """One line per table and policy; ratios in percent, times in seconds."""
    limited = any(limited is not None for _, _, _, limited in results)
    head = (*_COLUMNS, *(_UNDER_A_LIMIT if limited else ()))
    rows = [head, *(_row(subject.name, tuner, f, limit) for subject, tuner, f, limit in results)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _finite(figures: Mapping[str, float]) -> dict[str, float | None]:
    """A phase in which no K keeps the limit has no figure."""
    return {name: value if isfinite(value) else None for name, value in figures.items()}


def _row(name: str, tuner: str, f: Figures, limit: LimitFigures | None) -> tuple[str, ...]:
    return (
        name,
        tuner,
        f"{f.goodput:.1f}",
        "-" if f.regret is None else _percent(f.regret),
        _percent(f.overall_regret),
        _percent(f.worst_loss),
        str(f.switches),
        _percent(f.probe_share),
        "never" if f.seconds_to_optimum is None else f"{f.seconds_to_optimum:.0f} s",
        *(() if limit is None else (_percent(limit.broken), _percent(limit.goodput))),
    )


def _percent(share: float) -> str:
    return f"{100 * share + 0.0:.1f} %".replace("-0.0 %", "0.0 %")
