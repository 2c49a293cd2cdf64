"""``python -m tests.bench.tuning.verification``: Outrider beside the rules that engines have today.

vLLM's adaptive verification chooses among the drafts of all requests at each step. SGLang's rules and a
bandit choose K in the engine. The engines differ in what drafting and verifying cost, since that decides who
gains: a drafter of many calls or of one, a target with room for more tokens or without. Where two texts are
in one batch, one K is wrong for half of the requests. The figure is goodput over that of the best fixed K,
which is chosen afterwards. Published tables and moving traffic follow, by regret. Simulated: formulas, no
engine.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean

from outrider.performance.step_time import StepTime
from outrider_lab.engines.formula_engine import FormulaPhase
from outrider_lab.maps import MapErrors
from outrider_lab.rivals.contenders import ADAPTIVE_STATIC
from outrider_lab.scenario_runs import run_scenario, scenario_map, static_runs
from outrider_lab.scenarios import FormulaScenario
from tests.bench import results
from tests.bench.tuning.alternating import goodput
from tests.bench.tuning.families import MAP_ERROR, WITH_MAP, Job, moving, stationary
from tests.bench.tuning.moving import KINDS, engines

CALLS, BLOCK = (0, 1, 2, 3, 5), (0, 1, 2, 4, 7)
"""Candidates of a drafter with one call for each token, and of one that drafts seven at once."""
CODE, PROSE = (0.9, 0.9, 0.88, 0.88, 0.85, 0.85, 0.85), (0.12, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1)
CHAT = (0.7, 0.65, 0.6, 0.6, 0.6, 0.55, 0.55)
TEXTS = ("chat", "turns", "mixed")
"""One text; code and prose by turns of 20 s; half of the requests write code and half prose."""
STREAMS = (2, 8, 32)
SECONDS, TURN = 120.0, 20.0
IDLE_OVERHEAD = 0.05
"""Of the drafter at K=0, relative; 0.04 to 0.11 were published."""
NO_DRAFTER = "no drafter"
BEST_ADAPTIVE = "best fixed K, adaptive"
"""The draft length of a launch with adaptive verification, chosen afterwards."""
REFUSED = ("sglang", "sglang-throughput")
"""SGLang adapts no block drafter: its `adaptive_unsupported_reason` allows EAGLE and EAGLE-3 alone."""
POLICIES = (
    "outrider",
    "outrider-adaptive",
    "outrider-adaptive-profile",
    "adaptive",
    "sglang",
    "sglang-throughput",
    "ucb-specstop",
    "turbospec",
    "oracle",
)
SWEEP = ("adaptive:0.75", "adaptive:0.95", "adaptive:0.865:1000", "outrider-adaptive:0.75")
"""Drafters that know less or more of their drafts; costs that vLLM measures at the context of the traffic."""
BY_REGRET = ("sglang", "sglang-throughput", "ucb-specstop", "turbospec")
EXPENSIVE, CHEAP = "verifying is expensive", "verifying is cheap"

Row = dict[str, object]


def engine(name: str) -> tuple[StepTime, tuple[int, ...]]:
    """Step times and candidates, by name: the target and the kind of drafter."""
    target, _, drafter = name.partition(", ")
    step = replace(engines()[{CHEAP: "h100_8b", EXPENSIVE: "small"}[target]], idle_tax=IDLE_OVERHEAD)
    return (replace(step, block_calls=1), BLOCK) if drafter == "one call" else (step, CALLS)


ENGINES = tuple(", ".join(parts) for parts in product((CHEAP, EXPENSIVE), ("K calls", "one call")))


@dataclass(frozen=True)
class Cell:
    """One engine, text and number of streams."""

    engine: str
    text: str
    streams: int

    def scenario(self, seed: int) -> FormulaScenario:
        """Two minutes."""
        step, candidates = engine(self.engine)
        longest = max(candidates)
        code, prose, chat = CODE[:longest], PROSE[:longest], CHAT[:longest]
        phases: Mapping[str, tuple[FormulaPhase, ...]] = {
            "chat": (FormulaPhase(self.streams, SECONDS, chat),),
            "mixed": (FormulaPhase(self.streams, SECONDS, code, second=prose),),
            "turns": (FormulaPhase(self.streams, TURN, code), FormulaPhase(self.streams, TURN, prose))
            * round(SECONDS / TURN / 2),
        }
        return FormulaScenario(
            f"{self.engine}, {self.text}, {self.streams}",
            step,
            phases[self.text],
            candidates=candidates,
            seed=seed,
        )


def measured(cell: Cell, seed: int, policies: Sequence[str]) -> Row:
    """One cell with one seed: gain of each policy over the best fixed K."""
    case = cell.scenario(seed)
    fixed = {name.removeprefix("static:"): goodput(run) for name, run in static_runs(case).items()}
    best = max(fixed, key=lambda k: fixed[k])
    step_times = scenario_map(case, MapErrors(MAP_ERROR))
    known = [policy for policy in policies if not (case.step.block_calls and policy in REFUSED)]
    gains = {
        policy: goodput(run_scenario(case, policy, step_times=step_times)[0]) / fixed[best] - 1
        for policy in known
    }
    adaptive = [goodput(run_scenario(case, f"{ADAPTIVE_STATIC}{k}")[0]) for k in case.candidates]
    bare = goodput(run_scenario(case.without_drafter(), "static:0")[0])
    return {
        **asdict(cell),
        "seed": seed,
        "best_fixed": best,
        "fixed": fixed,
        "gains": {
            **gains,
            BEST_ADAPTIVE: max(adaptive) / fixed[best] - 1,
            NO_DRAFTER: bare / fixed[best] - 1,
        },
    }


def by(rows: Iterable[Row], *keys: str) -> dict[str, dict[str, tuple[float, float, float]]]:
    """By these keys and each policy that runs in all cells: mean gain, the smallest and largest of a run."""
    groups: dict[str, list[Mapping[str, float]]] = {}
    for row in rows:
        groups.setdefault("; ".join(str(row[key]) for key in keys), []).append(row["gains"])  # type: ignore[arg-type]
    found: dict[str, dict[str, tuple[float, float, float]]] = {}
    for group, gains in groups.items():
        for policy in gains[0]:
            each = [one[policy] for one in gains if policy in one]
            if len(each) == len(gains):
                found.setdefault(group, {})[policy] = (mean(each), min(each), max(each))
    return found


def regret_jobs(seeds: int, kinds: Sequence[str]) -> Iterator[Job]:
    """Published tables, and kinds of moving traffic, in which adaptive verification takes part."""
    outrider = ("outrider", WITH_MAP)
    yield from stationary("report", seeds, (*outrider, *BY_REGRET), "published")
    for job in moving("report", seeds, (*outrider, "adaptive", "outrider-adaptive", *BY_REGRET)):
        if job.case in kinds:
            yield from (replace(job, policies=(policy,)) for policy in job.policies)


def regrets(rows: Iterable[Mapping[str, object]]) -> dict[str, dict[str, tuple[float, float, float]]]:
    """By family and policy: mean regret of whole phases, and the smallest and largest of a single run."""
    groups: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        of = groups.setdefault(str(row["family"]), {})
        of.setdefault(str(row["policy"]), []).append(float(str(row["overall_regret"])))
    return {
        family: {policy: (mean(each), min(each), max(each)) for policy, each in policies.items()}
        for family, policies in groups.items()
    }


def text(found: Mapping[str, Mapping[str, tuple[float, float, float]]]) -> str:
    """A table for each group, in percent."""
    lines = []
    for group, policies in found.items():
        lines.append(f"\n{group}")
        for policy, (middle, low, high) in policies.items():
            lines.append(f"  {policy:28s} {middle:+7.1%} [{low:+.1%}, {high:+.1%}]")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Run everything, print summaries, and write all of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tuning.verification", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--no-sweep", action="store_true", help="leave out other drafters")
    parser.add_argument("--no-cells", action="store_true", help="tables and moving traffic alone")
    parser.add_argument("--no-regrets", action="store_true", help="leave out tables and moving traffic")
    parser.add_argument("--no-moving", action="store_true", help="leave out moving traffic alone")
    parser.add_argument(
        "--traffic", action="append", choices=KINDS, help="kind of moving traffic; default: all"
    )
    parser.add_argument("--output", type=Path, default=Path("out/bench/verification.json"))
    options = parser.parse_args(arguments)
    policies = POLICIES if options.no_sweep else (*POLICIES, *SWEEP)
    kinds = () if options.no_moving else options.traffic or KINDS
    began = datetime.now(UTC)
    cells = [] if options.no_cells else [Cell(*parts) for parts in product(ENGINES, TEXTS, STREAMS)]
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(partial(_job, policies), product(cells, range(options.seeds))))
        jobs = [] if options.no_regrets else list(regret_jobs(options.seeds, kinds))
        others = [row for found in pool.map(Job.run, jobs) for row in found]
    gains = {"all": by(rows), "engine": by(rows, "engine"), "text": by(rows, "text")}
    gains |= {"cell": by(rows, "engine", "text", "streams"), "engine and text": by(rows, "engine", "text")}
    for name in ("all", "engine and text"):
        print(text(gains[name]))
    lost = regrets(others)
    print("\nregret\n" + text(lost))
    head = results.head("tests.bench.tuning.verification", arguments, began)
    results.write(options.output, {**head, "gains": gains, "regrets": lost, "runs": rows, "others": others})


def _job(policies: Sequence[str], job: tuple[Cell, int]) -> Row:
    return measured(*job, policies)


if __name__ == "__main__":
    main(sys.argv[1:])
