"""Which runs there are, and which half of the data each belongs to.

A half is a set of (table, trace) pairs: constants of the law are tuned on `tune`, and the figures
that count come from `report`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import exp, log

import numpy as np

from outrider.performance.tables_file import read_tables
from outrider.performance.throughput_table import ThroughputTable
from outrider.tuning.estimate.step_time_profile import StepTimeProfile
from outrider_lab.engines.table_engine import Phase
from outrider_lab.figures import Figures
from outrider_lab.maps import MapErrors
from outrider_lab.scenario_runs import run_scenario, scenario_map
from outrider_lab.scenarios import EventScenario
from outrider_lab.table_runs import Setting, run_phases
from tests.bench.tuning.moving import KINDS, TABLES, scenario
from tests.bench.tuning.synthetic import synthetic_tables

TRACES = ("steps", "random")
WITH_MAP = "outrider-map"
"""The law with a map of step times of `MAP_ERROR`.

After a colon another error, or `wrong`: of other engines.
"""
MAP_ERROR = 0.03
WRONG = "wrong"
DOUBTFUL_MAPS = tuple(f"{WITH_MAP}:{error}" for error in (0.02, 0.08, WRONG))
RIVALS = (
    "hand",
    "acceptance",
    "acceptance-off",
    "length-off",
    "ema",
    "sglang",
    "sglang-throughput",
    "ucb-specstop",
    "nightjar",
    "vllm-profile",
    "turbospec",
    "model",
    "bandit",
)
RULES = ("outrider", WITH_MAP, *RIVALS)
ENGINES = ("h100_8b", "small")

Row = dict[str, object]


@dataclass(frozen=True)
class Job:
    """One table or scenario, one trace, one seed, some policies."""

    family: str  # stationary | steady | moving
    source: str  # published | synthetic | events
    case: str  # table or kind
    trace: str  # or engine
    half: str
    seed: int
    policies: tuple[str, ...]
    changes: Mapping[str, float] = field(default_factory=dict)
    change: str = ""  # name of the change in a sweep

    def key(self) -> str:
        """Stable, so that an interrupted run can continue."""
        return "/".join((self.family, self.case, self.trace, str(self.seed), self.change))

    def run(self) -> list[Row]:
        """One row per policy."""
        return [self._row(policy) for policy in self._all_policies()]

    def _all_policies(self) -> tuple[str, ...]:
        if "static" not in self.policies:
            return self.policies
        statics = tuple(f"static:{k}" for k in self._candidates())
        return (*(p for p in self.policies if p != "static"), *statics)

    def _candidates(self) -> tuple[int, ...]:
        return (0, 1, 2, 3, 5) if self.family == "moving" else tables()[self.case].candidates

    def _row(self, policy: str) -> Row:
        named = {"family": self.family, "source": self.source, "case": self.case, "trace": self.trace}
        named |= {"half": self.half, "seed": str(self.seed), "policy": policy, "change": self.change}
        return {**named, **asdict(self._figures(policy))}

    def _figures(self, policy: str) -> Figures:
        name = policy.partition(":")[0]
        tuner, error = ("outrider", _map_error(policy)) if name == WITH_MAP else (policy, None)
        if self.family == "moving":
            traffic = scenario(self.case, self.trace, self.seed)
            step_times = None if error is None else self._moving_map(traffic, error)
            return run_scenario(traffic, tuner, self.changes, step_times=step_times)[1]
        setting = Setting(seed=self.seed, policy=self.changes)
        if error is not None:
            setting = replace(setting, map_errors=_errors(error), map_of=self._mapped(error))
        return run_phases(table_phases(tables()[self.case], self.trace, self.seed), tuner, setting)[1]

    def _mapped(self, error: str) -> ThroughputTable:
        names = list(tables())
        return tables()[names[(names.index(self.case) + (error == WRONG)) % len(names)]]

    def _moving_map(self, traffic: EventScenario, error: str) -> StepTimeProfile:
        other = ENGINES[1 - ENGINES.index(self.trace)]
        mapped = scenario(self.case, other, self.seed) if error == WRONG else traffic
        return scenario_map(mapped, _errors(error))


def _map_error(policy: str) -> str:
    return policy.partition(":")[2] or str(MAP_ERROR)


def _errors(error: str) -> MapErrors:
    return MapErrors(MAP_ERROR if error == WRONG else float(error))


_TABLES: dict[str, ThroughputTable] = {}


def tables() -> Mapping[str, ThroughputTable]:
    """Published ones, then synthetic ones."""
    if not _TABLES:
        _TABLES.update(read_tables(TABLES))
        _TABLES.update({table.name: table for table in synthetic_tables()})
    return _TABLES


def table_phases(table: ThroughputTable, trace: str, seed: int) -> list[Phase]:
    """The loads of a trace.

    `steps`: 1, 8, 32, 2 streams for 300 s each. `random`: five loads from 1 to 48, 150 to 450 s each.
    `hour`: one load for an hour.
    """
    if trace == "steps":
        return [Phase(load, 300.0, table) for load in (1, 8, 32, 2)]
    rng = np.random.default_rng((seed, 5))
    if trace == "hour":
        return [Phase(int(rng.choice((1, 2, 4, 8, 16, 32))), 3600.0, table)]
    loads = [round(exp(rng.uniform(0.0, log(48.0)))) for _ in range(5)]
    return [Phase(load, float(rng.uniform(150.0, 450.0)), table) for load in loads]


def stationary(half: str, seeds: int, policies: tuple[str, ...], source: str | None = None) -> Iterator[Job]:
    """Tables alternate between the halves, and each table's two traces lie in different ones."""
    for index, name in enumerate(tables()):
        kind = "synthetic" if name.startswith("synthetic") else "published"
        for number, trace in enumerate(TRACES):
            mine = "tune" if (index + number) % 2 == 0 else "report"
            if mine == half and source in (None, kind):
                for seed in range(seeds):
                    yield Job("stationary", kind, name, trace, half, seed, policies)


def steady(half: str, seeds: int, policies: tuple[str, ...]) -> Iterator[Job]:
    """An hour of constant load, for counting switches and probes; tables alternate between the halves."""
    for index, name in enumerate(tables()):
        kind = "synthetic" if name.startswith("synthetic") else "published"
        if half == ("tune", "report")[index % 2]:
            for seed in range(seeds):
                yield Job("steady", kind, name, "hour", half, seed, policies)


def moving(half: str, seeds: int, policies: tuple[str, ...]) -> Iterator[Job]:
    """Each kind of trace is in both halves, with different engines."""
    for index, kind in enumerate(KINDS):
        engine = ENGINES[(index + (half == "report")) % 2]
        for seed in range(seeds):
            yield Job("moving", "events", kind, engine, half, seed, policies)
