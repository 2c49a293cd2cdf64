"""Engines of the comparison, and their split: which ones the tuner may be changed on, and which only report.

Step times come from published figures. The engines of the report are drawn from the commit's hash, so no
change can be tuned on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from outrider.performance.step_time import Timing
from outrider.performance.tables_file import read_tables
from outrider.performance.throughput_table import ThroughputTable
from outrider_lab.engines.formulas_file import read_formulas
from tests.bench import held_out
from tests.bench.tuning.moving import TABLES
from tests.bench.tuning.synthetic import synthetic_tables

TUNING = ("h100_8b", "a40_7b", "gb10_30b_moe")
"""Engines that changes of the tuner may use. Their traces are held out all the same."""
REPORT = ("drawn_dense", "drawn_moe")
"""Engines for reports alone."""
OVERHEADS = (0.0, 0.03, 0.1)
"""Of an idle drafter at K=0, relative to a launch without one."""
HEADLINE_OVERHEAD = 0.1
"""For the headline. Published for vLLM's V2 runner without Outrider's skip: 4 to 11 %, vllm#53420."""
PROMPT_TOKEN_SECONDS = 2e-4
"""For engines known by throughput, which do not say what a prompt costs; as in the simulated engines."""
_DRAWN = {"drawn_dense": 0, "drawn_moe": 2}


@dataclass(frozen=True, slots=True)
class TableSteps:
    """Step times behind a throughput table; see `Timing`. A table knows no context."""

    table: ThroughputTable
    idle_tax: float = 0.0
    per_token: float = PROMPT_TOKEN_SECONDS

    def seconds(self, batch: float, k: int, kv_tokens: float, prompt_tokens: float = 0.0) -> float:  # noqa: ARG002
        """See `Timing`. Acceptance is that of the table, so that its step times give its goodput."""
        requests = max(1.0, batch)
        reading = self.per_token * prompt_tokens
        if k == 0:
            return (requests / self.table.no_speculation(requests) + reading) * (1.0 + self.idle_tax)
        tokens = requests * (1.0 + sum(self.table.survival(requests, k)))
        return tokens / self.table.goodput(requests, k) + reading

    def growth(self, k: int) -> float:  # noqa: ARG002
        """See `Timing`."""
        return 0.0

    def without_drafter(self) -> TableSteps:
        """See `Timing`."""
        return replace(self, idle_tax=0.0)


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine of the comparison. most: streams per pod for which its step times are known."""

    name: str
    step: Timing
    candidates: tuple[int, ...]
    most: int


def engine(name: str, commit: str, overhead: float) -> Engine:
    """An engine by name. commit: all 40 digits. overhead: of the idle drafter, relative."""
    if name in _DRAWN:
        table = _drawn(commit)[name]
        return Engine(name, TableSteps(table, overhead), table.candidates, max(table.batch_sizes))
    return _PUBLISHED[name](overhead)


def _h100(overhead: float) -> Engine:
    formula = read_formulas(TABLES)["llama8b_h100_eagle3"]
    return Engine("h100_8b", replace(formula.step, idle_tax=overhead), (0, 1, 2, 3, 5), 64)


def _of_table(name: str, table: str) -> Callable[[float], Engine]:
    def made(overhead: float) -> Engine:
        found = read_tables(TABLES)[table]
        return Engine(name, TableSteps(found, overhead), found.candidates, max(found.batch_sizes))

    return made


_PUBLISHED: Mapping[str, Callable[[float], Engine]] = {
    "h100_8b": _h100,
    "a40_7b": _of_table("a40_7b", "a40_7b"),
    "gb10_30b_moe": _of_table("gb10_30b_moe", "gb10_qwen3_coder_30b"),
}


@lru_cache(maxsize=4)
def _drawn(commit: str) -> Mapping[str, ThroughputTable]:
    tables = synthetic_tables(3, seed=held_out.seed(commit, "engines"))
    return {name: tables[place] for name, place in _DRAWN.items()}
