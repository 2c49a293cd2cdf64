"""``python -m tests.bench.engine.record NAME RESULT...``: the record of closed loops, one for each engine.

RESULT is the `result.json` of a run on a simulated engine. All runs are of one commit, and are kept beside
the record with what each unit counted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tests.bench.engine.figures import ArmFigures, Interval
from tests.bench.engine.picture import title
from tests.bench.engine.plan import NONE, OUTRIDER
from tests.bench.engine.result import Goal, Result
from tests.bench.engine.summary import rate_range
from tests.bench.records.record import RAW, Record, Table, percent, percent_range
from tests.bench.traffic.record import ENGINES

_SHOW_ALONE = ("control", "picture", "progress", "record", "summary")
"""Modules of this folder that decide no figure of a closed loop."""
DEPENDS = (
    "operator/outrider/tuning",
    "operator/outrider/performance",
    "operator/outrider/controller/tune",
    "operator/outrider/telemetry",
    "engine_image/outrider_engine",
    "engine_image/protocol/outrider_protocol",
    "engine_image/testing/twin/outrider_twin",
    *sorted(
        f"tests/bench/engine/{file.name}"
        for file in Path(__file__).parent.glob("*.py")
        if file.stem not in _SHOW_ALONE
    ),
)
OWN = f"**{title(OUTRIDER)}**"
BEST_FIXED, LARGEST_FIXED = "best fixed K, found by trying all", "largest K, fixed"


def engine(result: Result) -> str:
    """What ran, such as `H100, 8B, EAGLE-3; 4 pods`."""
    conditions = result.conditions
    words = ENGINES[conditions.engine.rpartition(":")[2]]
    if conditions.pods > 1:
        words += f"; {conditions.pods} pods"
    if conditions.slow_pod != 1.0:
        words += f", one takes {conditions.slow_pod:g} times as long"
    return words


def tables(results: Sequence[Result]) -> list[Table]:
    """0: gains of all engines; 1: goals of all engines; then the arms of each engine, the fastest first."""
    return [_gains(results), _goals(results), *(_arms(result) for result in results)]


def _gains(results: Sequence[Result]) -> Table:
    names = dict.fromkeys(
        arm.arm
        for result in results
        for arm in result.figures.arms
        if not arm.arm.isdecimal() and arm.arm not in (OUTRIDER, NONE)
    )
    rows = [
        [OWN, *(_gain(_arm(result, OUTRIDER)) for result in results)],
        [BEST_FIXED, *(_gain(_fixed(result)[0]) for result in results)],
        [LARGEST_FIXED, *(_gain(_largest(result)) for result in results)],
        *([title(name), *(_gain(_arm(result, name)) for result in results)] for name in names),
    ]
    return Table(columns=["gain over no drafter, %", *map(engine, results)], rows=rows)


def _goals(results: Sequence[Result]) -> Table:
    words = dict.fromkeys(goal.words for result in results for goal in result.goals)
    found = [{goal.words: goal for goal in result.goals} for result in results]
    rows = [
        [each.replace("stand-ins", "simulated engines"), *(_reached(goals.get(each)) for goals in found)]
        for each in words
    ]
    return Table(columns=["goal", *map(engine, results)], rows=rows)


def _reached(goal: Goal | None) -> str:
    if goal is None or goal.value is None:
        return ""
    value = f"{goal.value:.3g} (limit {goal.limit:g})"
    return value if goal.reached else f"**missed**: {value}"


def _arms(result: Result) -> Table:
    predicted = {one.arm: one for one in result.predictions}
    rows = []
    for arm in result.figures.arms:
        other = predicted.get(arm.arm)
        settled = None if other is None else other.regret_settled
        rows.append(
            [
                OWN if arm.arm == OUTRIDER else title(arm.arm),
                rate_range(arm.tokens_per_second),
                "" if other is None else f"{other.tokens_per_second:.0f}",
                _percent(arm.regret_whole),
                "" if other is None else percent(other.regret_whole),
                _percent(arm.regret_settled),
                "" if settled is None else percent(settled),
                _gain(arm),
            ]
        )
    columns = [
        engine(result),
        "tokens/s",
        "predicted",
        "regret, %",
        "predicted",
        "after 30 s, %",
        "predicted",
        "gain over no drafter, %",
    ]
    return Table(columns=columns, rows=rows)


def _arm(result: Result, name: str) -> ArmFigures | None:
    return next((arm for arm in result.figures.arms if arm.arm == name), None)


def _fixed(result: Result) -> list[ArmFigures]:
    """The fastest first, as all arms are."""
    return [arm for arm in result.figures.arms if arm.arm.isdecimal()]


def _largest(result: Result) -> ArmFigures:
    return max(_fixed(result), key=lambda arm: int(arm.arm))


def _gain(arm: ArmFigures | None) -> str:
    if arm is None or arm.loss is None:
        return ""
    return percent_range(-arm.loss.value, -arm.loss.high, -arm.loss.low)


def _percent(found: Interval | None) -> str:
    return "" if found is None else percent_range(found.value, found.low, found.high)


def record_of(results: Sequence[Result], name: str) -> Record:
    """The record of these runs.

    Raises:
        ValueError: they are of several commits.
    """
    commits = {result.conditions.commit for result in results}
    if len(commits) > 1:
        raise ValueError(f"runs of one record have one commit, and these have {sorted(commits)}")
    first = results[0].conditions
    requests = sum(result.requests.finished for result in results)
    failed = sum(result.requests.failed for result in results)
    return Record(
        name=name,
        date=first.started[:10],
        commit=commits.pop(),
        command="; ".join(result.conditions.command for result in results),
        shown=f"simulated: real vLLM {first.engine_version} whose executor sleeps the step times of a table; "
        "operator, Prometheus, Service and clients in a kind cluster",
        machine=f"{first.client_machine}; {_beside(results)}",
        interval="95 % over slices and repeats inside one run; the scatter between runs was not measured",
        limits=f"{requests} requests, {failed} failed. K=0 is free where the source table has no figure "
        "without a drafter (A40, GB10), and costs 3 % of a step on the H100.",
        depends=DEPENDS,
        versions={"kubernetes": first.kubernetes_version, "vllm": first.engine_version},
        script="python -m tests.bench.engine.record",
        tables=tables(results),
        raw=f"{name}{RAW}",
    )


def _beside(results: Sequence[Result]) -> str:
    """What else ran on the machine."""
    runs = sorted((result.conditions.started, result.conditions.finished) for result in results)
    overlapped = any(start < end for (_, end), (start, _) in pairwise(runs))
    return "runs overlapped, each with its own engines" if overlapped else "nothing else ran"


def main(arguments: Sequence[str]) -> None:
    """Write the record, and the runs beside it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.engine.record", description=__doc__)
    parser.add_argument("name", help="such as 2026-12-01-closed-loop")
    parser.add_argument("results", type=Path, nargs="+", help="such as out/bench/h100/result.json")
    options = parser.parse_args(arguments)
    results = [Result.model_validate_json(path.read_text(encoding="utf-8")) for path in options.results]
    kept = [result.model_dump(mode="json") for result in results]
    record_of(results, options.name).write_with({"runs": kept})


if __name__ == "__main__":
    main(sys.argv[1:])
