"""``python -m tests.bench.tuning.users``: what a request feels of K, with every K alone on the same requests.

Seconds per token decide whether the K of the highest goodput is also the one of the shortest latency, and the
time to the first token how much of it K moves. Moving traffic of the report half.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from outrider_lab.engines.event_engine import EnginePod
from outrider_lab.scenario_runs import run_scenario, truth_of
from outrider_lab.scenarios import EventScenario
from outrider_lab.traffic.requests import Request
from tests.bench.tuning.families import ENGINES
from tests.bench.tuning.moving import KINDS, scenario


@contextmanager
def _first_tokens() -> Iterator[list[tuple[float, float]]]:
    """When each request came and how long it waited for its first token."""
    join, found = EnginePod._join, list[tuple[float, float]]()

    def remember(pod: EnginePod, requests: Sequence[Request]) -> None:
        found.extend((r.arrived_at, pod.now - r.arrived_at) for r in requests if r.left <= 0)
        join(pod, requests)

    with patch.object(EnginePod, "_join", remember):
        yield found


def felt(case: EventScenario) -> Iterator[str]:
    """One line for each phase: milliseconds per token and the slowest tenth of first tokens, by K."""
    runs = {}
    for k in case.candidates:
        with _first_tokens() as waits:
            alone, _ = run_scenario(EventScenario(case.name, case.plant, case.trace, (k,)), f"static:{k}")
        runs[k] = alone.spans, list(waits)
    for phase in truth_of(case).phases:
        each, first = {}, {}
        for k, (spans, waits) in runs.items():
            inside = [s for s in spans if phase.started_at <= s.started_at < phase.ended_at]
            each[k] = sum(s.batch_size * s.engine_seconds for s in inside) / sum(s.tokens for s in inside)
            mine = [wait for at, wait in waits if phase.started_at <= at < phase.ended_at]
            first[k] = float(np.quantile(mine, 0.9)) if mine else float("nan")
        soonest = min(each, key=each.__getitem__)
        tokens = " ".join(f"{k}:{1000 * x:.1f}" for k, x in each.items())
        waits_told = " ".join(f"{k}:{1000 * x:.0f}" for k, x in first.items())
        lost = each[phase.best_k] / each[soonest] - 1
        yield (
            f"{case.name:24s} {phase.label:14s} goodput K={phase.best_k} latency K={soonest} "
            f"(+{100 * lost:.1f} %)  ms per token {tokens}  first token p90 ms {waits_told}"
        )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="of a phase")
    options = parser.parse_args()
    for index, kind in enumerate(KINDS):
        for line in felt(scenario(kind, ENGINES[(index + 1) % 2], 0, options.seconds)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
