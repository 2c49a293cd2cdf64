"""``python -m tests.bench.engine.record NAME RESULT...``: the record of closed loops, by engine.

RESULT is the `result.json` of a run on a simulated engine, or the result file of another record. All runs
are of one commit. Where an engine ran more than once, brackets are the lowest and the highest run. The record
keeps what each unit counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean

from outrider.pictures.charts import NARROW, Bar, bars_chart, standalone
from tests.bench.engine.figures import ArmFigures, Interval, PhaseFigures
from tests.bench.engine.picture import title
from tests.bench.engine.plan import NONE, OUTRIDER, PROFILED
from tests.bench.engine.result import Result
from tests.bench.engine.summary import rate_range
from tests.bench.records.record import DEPLOYED, RAW, Record, Table, percent, percent_range
from tests.bench.traffic.record import ENGINES, SHORT

_SHOW_ALONE = ("control", "picture", "progress", "record", "summary")
"""Modules of this folder that decide no figure of a closed loop."""
DEPENDS = (
    *DEPLOYED,
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
    words = ENGINES[_name(result)]
    if conditions.pods > 1:
        words += f"; {conditions.pods} pods"
    if conditions.slow_pod != 1.0:
        words += f", one takes {conditions.slow_pod:g} times as long"
    return words


def _name(result: Result) -> str:
    return result.conditions.engine.rpartition(":")[2]


Runs = Mapping[str, Sequence[Result]]
"""By the words for the engine, in the order of their start."""


def by_engine(results: Iterable[Result]) -> Runs:
    """The runs of each engine; engines in the order in which they came."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(engine(result), []).append(result)
    return {name: sorted(runs, key=lambda run: run.conditions.started) for name, runs in found.items()}


def tables(results: Sequence[Result]) -> list[Table]:
    """0: gains of all engines. 1: goals of all engines. Then by engine: the arms, the fastest first.

    Then by engine: Outrider's loads, the worst first. Where an engine ran more than once, the last one has
    Outrider's gain in each run.
    """
    runs = by_engine(results)
    arms = [_arms(name, own) for name, own in runs.items()]
    loads = [_loads(name, own) for name, own in runs.items()]
    single = [_single_runs(runs)] if len(runs) < len(results) else []
    return [_gains(runs), _goals(runs), *arms, *loads, *single]


def _gains(runs: Runs) -> Table:
    names = dict.fromkeys(
        arm.arm
        for own in runs.values()
        for arm in own[0].figures.arms
        if not arm.arm.isdecimal() and arm.arm not in (OUTRIDER, NONE)
    )
    rows = [
        [OWN, *(_gain(_each(own, OUTRIDER)) for own in runs.values())],
        [BEST_FIXED, *(_gain([_fixed(run)[0] for run in own]) for own in runs.values())],
        [LARGEST_FIXED, *(_gain([_largest(run) for run in own]) for own in runs.values())],
        *([title(name), *(_gain(_each(own, name)) for own in runs.values())] for name in names),
    ]
    return Table(columns=["gain over no drafter, %", *runs], rows=rows)


def _goals(runs: Runs) -> Table:
    words = dict.fromkeys(goal.words for own in runs.values() for run in own for goal in run.goals)
    rows = [
        [each.replace("stand-ins", "simulated engines"), *(_reached(each, own) for own in runs.values())]
        for each in words
    ]
    return Table(columns=["goal", *runs], rows=rows)


def _reached(words: str, runs: Sequence[Result]) -> str:
    """The value in each run; equal ones once."""
    found = [goal for run in runs for goal in run.goals if goal.words == words and goal.value is not None]
    if not found:
        return ""
    values = [f"{goal.value:.3g}" for goal in found]
    value = values[0] if len(set(values)) == 1 else ", ".join(values)
    missed = sum(not goal.reached for goal in found)
    times = f" in {missed} of {len(found)} runs" if 0 < missed < len(found) else ""
    return (f"**missed{times}**: " if missed else "") + f"{value} (limit {found[0].limit:g})"


def _arms(name: str, runs: Sequence[Result]) -> Table:
    rows = []
    for arm in sorted(_arm_names(runs), key=lambda arm: -_rate(_each(runs, arm)).value):
        each = _each(runs, arm)
        others = [one for run in runs for one in run.predictions if one.arm == arm]
        settled = [one.regret_settled for one in others if one.regret_settled is not None]
        rows.append(
            [
                OWN if arm == OUTRIDER else title(arm),
                rate_range(_rate(each)),
                f"{mean(one.tokens_per_second for one in others):.0f}" if others else "",
                _percent([one.regret_whole for one in each]),
                percent(mean(one.regret_whole for one in others)) if others else "",
                _percent([one.regret_settled for one in each]),
                percent(mean(settled)) if settled else "",
                _gain(each),
            ]
        )
    columns = [
        name,
        "tokens/s",
        "predicted",
        "regret, %",
        "predicted",
        "after 30 s, %",
        "predicted",
        "gain over no drafter, %",
    ]
    return Table(columns=columns, rows=rows)


def _loads(name: str, runs: Sequence[Result]) -> Table:
    """Outrider alone. A load that comes back is one row, with its lowest and highest phase in brackets.

    Names of texts are left out where an engine has one text.
    """
    phases: dict[str, list[PhaseFigures]] = {}
    for arm in _each(runs, OUTRIDER):
        for phase in arm.phases:
            phases.setdefault(phase.load, []).append(phase)
    worst_first = sorted(phases.items(), key=lambda item: -mean(_losses(item[1]) or [0.0]))
    texts = {load.rpartition(" x")[0] for load in phases}
    rows = [
        [
            load if len(texts) > 1 else f"{load.rpartition(' x')[2]} streams",
            str(len(own)),
            _gain(own),
            _percent([one.regret_whole for one in own]),
        ]
        for load, own in worst_first
    ]
    columns = [f"{name}: Outrider, the worst load first", "phases", "gain over no drafter, %", "regret, %"]
    return Table(columns=columns, rows=rows)


def _single_runs(runs: Runs) -> Table:
    """With the interval inside the run."""
    most = max(len(own) for own in runs.values())
    rows = [
        [f"run {place + 1}", *(_gain(_each(own[place : place + 1], OUTRIDER)) for own in runs.values())]
        for place in range(most)
    ]
    return Table(columns=["Outrider's gain over no drafter, %", *runs], rows=rows)


def _arm_names(runs: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(arm.arm for run in runs for arm in run.figures.arms))


def _each(runs: Sequence[Result], name: str) -> list[ArmFigures]:
    """The arm in each run that has it."""
    return [arm for run in runs for arm in run.figures.arms if arm.arm == name]


def _fixed(result: Result) -> list[ArmFigures]:
    """The fastest first, as all arms are."""
    return [arm for arm in result.figures.arms if arm.arm.isdecimal()]


def _largest(result: Result) -> ArmFigures:
    return max(_fixed(result), key=lambda arm: int(arm.arm))


def _over_runs(found: Sequence[Interval]) -> Interval:
    """Mean, lowest and highest; of a single run its own interval."""
    if len(found) == 1:
        return found[0]
    values = [one.value for one in found]
    return Interval(value=mean(values), low=min(values), high=max(values))


def _rate(arms: Sequence[ArmFigures]) -> Interval:
    return _over_runs([arm.tokens_per_second for arm in arms])


def _gain_of(loss: Interval) -> Interval:
    return Interval(value=-loss.value, low=-loss.high, high=-loss.low)


def _losses(figures: Iterable[ArmFigures | PhaseFigures]) -> list[float]:
    """Relative to no drafter; none where no such launch ran."""
    return [one.loss.value for one in figures if one.loss is not None]


def _gain(figures: Iterable[ArmFigures | PhaseFigures]) -> str:
    return _percent([_gain_of(one.loss) for one in figures if one.loss is not None])


def _percent(found: Sequence[Interval | None]) -> str:
    known = [one for one in found if one is not None]
    if not known:
        return ""
    over = _over_runs(known)
    return percent_range(over.value, over.low, over.high)


def drawn(results: Sequence[Result]) -> str:
    """Tokens per second of rules relative to a launch without a drafter, by engine, as wide as a phone."""
    bars = [
        _bar(f"{SHORT[_name(own[0])]}: {words}", arms)
        for own in by_engine(results).values()
        for words, arms in _pictured(own)
        if _losses(arms)
    ]
    words = "Tokens per second relative to a launch without a drafter, by engine and rule, simulated"
    return standalone(bars_chart(bars, alt=words, width=NARROW))


def _pictured(runs: Sequence[Result]) -> list[tuple[str, list[ArmFigures]]]:
    """As many as there are colours, so that a rule has one colour."""
    return [
        ("Outrider", _each(runs, OUTRIDER)),
        ("best fixed K", [_fixed(run)[0] for run in runs]),
        ("vLLM's profile", _each(runs, PROFILED)),
        ("TurboSpec", _each(runs, "turbospec")),
        ("SGLang's rule", _each(runs, "sglang")),
        ("largest K", [_largest(run) for run in runs]),
    ]


def _bar(name: str, arms: Sequence[ArmFigures]) -> Bar:
    gain = _over_runs([_gain_of(arm.loss) for arm in arms if arm.loss is not None])
    middle, low, high = (100 * (1 + each) for each in (gain.value, gain.low, gain.high))
    return Bar(name, middle, low, high, f"{middle:.0f} %")


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
        interval=_interval(results),
        limits=f"{requests} requests, {failed} failed. K=0 is free where the source table has no figure "
        "without a drafter (A40, GB10), and costs 3 % of a step on the H100.",
        depends=DEPENDS,
        versions={"kubernetes": first.kubernetes_version, "vllm": first.engine_version},
        script="python -m tests.bench.engine.record",
        tables=tables(results),
        raw=f"{name}{RAW}",
    )


def _interval(results: Sequence[Result]) -> str:
    """What brackets cover."""
    inside = "95 % over slices and repeats inside one run"
    most = max(by_engine(results).values(), key=len)
    if len(most) == 1:
        return f"{inside}; the scatter between runs was not measured"
    starts = ", ".join(run.conditions.started[:16].replace("T", " ") for run in most)
    return (
        f"lowest and highest of {len(most)} runs, which started at {starts} UTC; of single runs {inside}; "
        "of a load with several phases the lowest and the highest phase"
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
    parser.add_argument(
        "--picture", type=Path, help="bars by engine and rule, such as docs/images/closed-loop.svg"
    )
    options = parser.parse_args(arguments)
    results = [result for path in options.results for result in _read(path)]
    kept = [result.model_dump(mode="json") for result in results]
    record_of(results, options.name).write_with({"runs": kept})
    if options.picture:
        options.picture.write_text(drawn(results) + "\n", encoding="utf-8")


def _read(path: Path) -> list[Result]:
    """One run, or those that a record kept."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return [Result.model_validate(each) for each in found.get("runs", [found])]


if __name__ == "__main__":
    main(sys.argv[1:])
