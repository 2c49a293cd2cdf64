"""``python -m tests.bench.traffic.record RESULT NAME``: the record, its tables and its picture, of a result.

The result file beside the record keeps every gain, and Outrider's phases at the headline's overhead.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from platform import python_version
from typing import Any

from outrider.pictures.charts import NARROW, Bar, bars_chart, standalone
from tests.bench.records.record import RAW, ROOT, TUNER, Record, Table, percent, percent_range
from tests.bench.traffic.engines import HEADLINE_OVERHEAD, OVERHEADS, REPORT
from tests.bench.traffic.runs import (
    BEST_HELD,
    LARGEST_HELD,
    NO_DRAFTER,
    ORACLE,
    OUTRIDER,
    UNPROFILED,
    VERIFYING,
)
from tests.bench.traffic.summary import (
    GAIN,
    WARM,
    Spread,
    at,
    behind_best,
    gains,
    goals,
    reported,
    rules,
    worst_phases,
)

PICTURE = ROOT / "docs" / "images" / "traffic.svg"
DEPENDS = (
    *TUNER,
    "tests/bench/held_out.py",
    "tests/bench/traffic/engines.py",
    "tests/bench/traffic/kinds.py",
    "tests/bench/traffic/runs.py",
    "tests/bench/tuning/synthetic.py",
    "examples/tables/visible_tables.json",
)
WORST_PHASES = 8
ENGINES = {
    "h100_8b": "H100, 8B, EAGLE-3",
    "a40_7b": "A40, 7B, draft model",
    "gb10_30b_moe": "GB10, 30B MoE, EAGLE-3",
    "drawn_dense": "drawn from the commit, dense",
    "drawn_moe": "drawn from the commit, MoE",
}
SHORT = {
    "h100_8b": "H100",
    "a40_7b": "A40",
    "gb10_30b_moe": "GB10",
    "drawn_dense": "drawn, dense",
    "drawn_moe": "drawn, MoE",
}
NAMES = {
    OUTRIDER: "**Outrider**",
    UNPROFILED: "Outrider without its startup profile",
    "vllm-profile": "vLLM's schedule, from an offline profile",
    "turbospec": "TurboSpec, from an offline profile",
    "sglang": "SGLang's adaptive mode",
    "ema": "SGLang's first average (`ema`)",
    "sglang-throughput": "SGLang `throughput_aware`",
    "ucb-specstop": "UCB-SpecStop",
    "nightjar": "Nightjar's bandit",
    "bandit": "a bandit for each batch bin",
    "acceptance": "acceptance thresholds",
    "hand": "rule-of-thumb schedule",
    "adaptive": "vLLM's adaptive verification, largest K",
    "outrider-adaptive": "Outrider above adaptive verification",
    BEST_HELD: "best held K of each run, chosen afterwards",
    LARGEST_HELD: "largest K, held",
    NO_DRAFTER: "no drafter",
    ORACLE: "oracle policy",
}

Row = Mapping[str, Any]


def tables(rows: Sequence[Row]) -> list[Table]:
    """All tables of the record; pages name them by their place."""
    own = at(rows, HEADLINE_OVERHEAD)
    return [
        _headline(own),
        _overall(own),
        _by_kind(own),
        _by_overhead(rows),
        _phases(own),
        _goals(rows),
        _verifying(own),
    ]


def _headline(rows: Sequence[Row]) -> Table:
    """0: engines, for the first page."""
    shown = (OUTRIDER, BEST_HELD, LARGEST_HELD)
    found = []
    for engine, name in _present(rows).items():
        own = [row for row in rows if row["engine"] == engine]
        found.append([name, *(_percent(gains(own, rule)) for rule in shown)])
    found.append(["all", *(_percent(gains(rows, rule)) for rule in shown)])
    columns = ["gain over a launch without a drafter, %", "Outrider", "best held K", "largest K"]
    return Table(columns=columns, rows=found)


def _present(rows: Sequence[Row]) -> Mapping[str, str]:
    """Engines of these rows with their names for people, in one order."""
    there = {row["engine"] for row in rows}
    return {engine: name for engine, name in ENGINES.items() if engine in there}


def _overall(rows: Sequence[Row]) -> Table:
    """1: rules, over all engines and kinds."""
    columns = ["rule", "gain, %", "without the first minute, %", "worst kind, %"]
    order = [*sorted(rules(rows), key=lambda rule: -gains(rows, rule).mean), BEST_HELD, ORACLE]
    return Table(columns=columns, rows=[_rule(rows, rule) for rule in order])


def _rule(rows: Sequence[Row], rule: str) -> list[str]:
    kinds = dict.fromkeys(str(row["kind"]) for row in rows)
    by_kind = {kind: gains([row for row in rows if row["kind"] == kind], rule).mean for kind in kinds}
    worst = min(by_kind, key=lambda kind: by_kind[kind])
    if rule == NO_DRAFTER:
        return [NAMES[rule], "0", "0", "0"]
    cold, warm = _percent(gains(rows, rule)), _percent(gains(rows, rule, WARM))
    return [NAMES[rule], cold, warm, f"{percent(by_kind[worst])} ({worst})"]


def _by_kind(rows: Sequence[Row]) -> Table:
    """2: kinds, beginning with that where Outrider is furthest behind."""
    cold, warm = (behind_best(rows, "kind", figure) for figure in (GAIN, WARM))
    found = []
    for kind in sorted(cold, key=lambda kind: -cold[kind][1]):
        own = [row for row in rows if row["kind"] == kind]
        rule, behind = cold[kind]
        coverage = [row["found"][OUTRIDER]["coverage"] for row in own]
        known = [each for each in coverage if each is not None]
        found.append(
            [
                kind,
                _percent(gains(own, OUTRIDER)),
                NAMES[rule],
                _percent(gains(own, rule)),
                percent(behind),
                percent(warm[kind][1]),
                f"{100 * sum(known) / len(known):.0f}" if known else "",
            ]
        )
    columns = ["traffic", "Outrider, gain, %", "best other rule", "its gain, %", "Outrider behind it, %"]
    return Table(columns=[*columns, "without the first minute, %", "intervals with the truth, %"], rows=found)


def _by_overhead(rows: Sequence[Row]) -> Table:
    """3: what an idle drafter's overhead changes, in repetitions that every overhead has."""
    found = []
    ran = [{row["number"] for row in at(rows, overhead)} for overhead in OVERHEADS]
    rows = [row for row in rows if row["number"] in set.intersection(*ran)]
    for engine, name in _present(rows).items():
        cells = []
        for overhead in OVERHEADS:
            own = [row for row in at(rows, overhead) if row["engine"] == engine]
            cells += [_percent(gains(own, OUTRIDER)), percent(gains(own, BEST_HELD).mean)]
        found.append([name, *cells])
    columns = [
        text
        for overhead in OVERHEADS
        for text in (f"K=0 costs {100 * overhead:g} %: Outrider, %", "best held K, %")
    ]
    return Table(columns=["engine", *columns], rows=found)


def _phases(rows: Sequence[Row]) -> Table:
    """4: Outrider's worst phases by regret."""
    found = [
        [
            SHORT[phase["engine"]],
            str(phase["kind"]),
            str(phase["label"]),
            percent(phase["regret"]),
            "" if phase["settled"] is None else percent(phase["settled"]),
            percent(phase["gain"]),
        ]
        for phase in worst_phases(rows)[:WORST_PHASES]
    ]
    columns = ["engine", "traffic", "phase", "regret, %", "after 30 s, %", "gain over no drafter, %"]
    return Table(columns=columns, rows=found)


def _goals(rows: Sequence[Row]) -> Table:
    """5: goals, with and without the first minute."""
    found = [
        [cold.name, cold.limit, _reached(cold.words, met=cold.met), _reached(warm.words, met=warm.met)]
        for cold, warm in zip_longest(goals(rows, GAIN), goals(rows, WARM))
    ]
    return Table(columns=["goal", "limit", "whole runs", "without the first minute"], rows=found)


def _reached(words: str, *, met: bool) -> str:
    for rule in sorted(NAMES, key=len, reverse=True):
        if words.endswith(f" {rule}"):
            words = words.removesuffix(rule) + NAMES[rule]
    for engine, name in SHORT.items():
        words = words.replace(f" on {engine}", f" on {name}")
    return words if met else f"**missed**: {words}"


def _verifying(rows: Sequence[Row]) -> Table:
    """6: adaptive verification, where step times say what it costs."""
    own = [row for row in rows if row["engine"] == "h100_8b"] or rows
    shown = {*rules(own)[:4], OUTRIDER, *(rule for rule in VERIFYING if rule in own[0]["found"])}
    order = sorted(shown, key=lambda rule: -gains(own, rule).mean)
    found = [[NAMES[rule], _percent(gains(own, rule))] for rule in order]
    return Table(columns=["rule, on the H100", "gain, %"], rows=found)


def _percent(spread: Spread) -> str:
    if spread.low == spread.high:  # one repetition
        return percent(spread.mean)
    return percent_range(spread.mean, spread.low, spread.high)


def picture(table: Table) -> str:
    """Rules as bars, as wide as a phone. table: `_overall`."""
    bars = []
    for rule, gain, *_ in table.rows:
        numbers = [float(each.strip("[],")) + 100.0 for each in gain.split()]
        middle, low, high = numbers if len(numbers) == 3 else numbers * 3
        name = rule.strip("*").replace("`", "").removesuffix(", chosen afterwards").partition(", from")[0]
        bars.append(Bar(name, middle, low, high, f"{middle:.0f} %"))
    words = "Tokens per second relative to a launch without a drafter, by rule, simulated"
    return standalone(bars_chart(bars, alt=words, width=NARROW))


def compact(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows with four digits; phases of Outrider at the headline's overhead alone."""
    found = []
    for row in rows:
        kept = row["overhead"] == HEADLINE_OVERHEAD
        rules_of = {
            name: {
                **{key: _rounded(value) for key, value in one.items() if key != "phases"},
                "phases": [{key: _rounded(value) for key, value in phase.items()} for phase in one["phases"]]
                if kept and name == OUTRIDER
                else [],
            }
            for name, one in row["found"].items()
        }
        found.append({**row, "found": rules_of})
    return found


def _rounded(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value


def record_of(result: Mapping[str, Any], name: str) -> Record:
    """The record of a result."""
    rows = result["runs"]
    regret = next(goal for goal in goals(rows) if goal.name.startswith("regret"))
    own = at(rows, HEADLINE_OVERHEAD)
    return Record(
        name=name,
        date=result["date"][:10],
        commit=result["commit"],
        command=f"make bench-traffic ARGS='--commit {result['draws_of']}'",
        shown="simulated: the tuner, the fast loop, scrapes and ticks; engines of formulas and tables",
        machine="two shared CPU cores; the figures do not depend on it",
        interval="smallest and largest of three repetitions with other traces; no confidence interval",
        limits=(
            f"No engine ran. K=0 costs {100 * HEADLINE_OVERHEAD:g} % of a step, near the upper end of the "
            "published 4 to 11 % (vllm#53420, V2 without Outrider's skip). Runs take four to six minutes."
            f"{_missing(rows)}"
        ),
        depends=DEPENDS,
        versions={"Python": python_version(), "numpy": version("numpy")},
        script="python -m tests.bench.traffic.record",
        tables=tables(rows),
        figures={
            "regret_after_30_s": regret.words,
            "coverage": round(reported(own, "coverage").mean, 4),
            "engines_for_reports_alone": ", ".join(REPORT),
            "draws_of": result["draws_of"],
        },
        raw=f"{name}{RAW}",
    )


def _missing(rows: Sequence[Row]) -> str:
    """Say where overheads besides the headline's have fewer repetitions."""
    whole = {row["number"] for row in at(rows, HEADLINE_OVERHEAD)}
    others = {row["number"] for row in rows if row["overhead"] != HEADLINE_OVERHEAD}
    return "" if others == whole else f" Other overheads ran {len(others)} of {len(whole)} repetitions."


def main(arguments: Sequence[str], *, show: Callable[[str], None] = print) -> None:
    """Write record, result and picture."""
    source, name = arguments
    result = json.loads(Path(source).read_text(encoding="utf-8"))
    kept = {**result, "runs": compact(result["runs"])}
    record = record_of(kept, name)
    record.write_with(kept)
    PICTURE.write_text(picture(record.tables[1]), encoding="utf-8")
    show(f"{record.path}, {PICTURE}")


if __name__ == "__main__":
    main(sys.argv[1:])
