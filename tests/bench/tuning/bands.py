"""``python -m tests.bench.tuning.bands``: what rows that hold bands of acceptance could bring at most.

Every engine knows the expected acceptance of the requests that it holds, at every step and without noise,
and takes the K that this makes best by the law's believed step times. No band could know more, so what this
gains over the law's table is a bound.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from operator import mul
from unittest.mock import patch

import numpy as np

from outrider.simulate.engines.event_engine import EnginePod
from outrider.simulate.engines.event_fleet import Plant
from outrider.simulate.maps import MapErrors
from outrider.simulate.scenario_runs import run_scenario, scenario_map
from outrider.simulate.scenarios import EventScenario
from outrider.simulate.traffic.requests import Trace, Traffic
from outrider.tuning.estimate.belief import Belief, beliefs
from outrider.tuning.policy import Policy
from tests.bench.tuning.families import ENGINES, MAP_ERROR
from tests.bench.tuning.moving import CODE, KINDS, PROSE, engines, scenario


def alternating(engine: str, streams: int, each: float, seed: int) -> EventScenario:
    """Code and prose in turn, `each` seconds; every turn cuts off what is under way."""
    output = 1200.0 if engine == "h100_8b" else 300.0
    turns = [
        Traffic(each, text, streams=streams, output=output, anew=True)
        for _ in range(round(600.0 / each / 2))
        for text in (CODE, PROSE)
    ]
    name = f"{streams} streams, {each:g} s each/{engine}"
    return EventScenario(name, Plant(engines()[engine]), Trace(tuple(turns), seed=seed))


@contextmanager
def _told_at_once(policy: Policy) -> Iterator[None]:
    believed: dict[int, Belief] = {}
    block = EnginePod._block

    def remember(*args: object, **more: object) -> Mapping[int, Belief]:
        believed.update(beliefs(*args, **more))  # type: ignore[arg-type]
        return believed

    def goodput(pod: EnginePod, belief: Belief, k: int) -> float:
        tokens = float(sum(map(mul, pod._counts, pod._acceptances.rates(k, pod.now))))
        return tokens / belief.step_seconds(k)

    def best(pod: EnginePod, table: Callable[[int], int]) -> Callable[[int], int]:
        def k_of(scheduled: int) -> int:
            belief = believed.get(policy.bin_of(scheduled))
            if belief is None or not pod._decoding:
                return table(scheduled)
            return max(policy.candidates, key=lambda k: goodput(pod, belief, k))

        return k_of

    def told(pod: EnginePod, until: float, table: Callable[[int], int]) -> None:
        block(pod, until, best(pod, table))

    with patch("outrider.tuning.law.beliefs", remember), patch.object(EnginePod, "_block", told):
        yield


def compare(case: EventScenario) -> tuple[float, float]:
    """Regret of the tuner with a step-time profile, and with immediate knowledge."""
    step_times = scenario_map(case, MapErrors(MAP_ERROR))
    _, own = run_scenario(case, "outrider", step_times=step_times)
    policy = Policy(candidates=case.candidates, max_num_seqs=case.largest_batch)
    with _told_at_once(policy):
        _, told = run_scenario(case, "outrider", step_times=step_times)
    return own.overall_regret, told.overall_regret


def cases(seed: int) -> Iterator[tuple[str, EventScenario]]:
    """Group and scenario."""
    for index, kind in enumerate(kind for kind in KINDS if kind != "stock"):
        found = scenario(kind, ENGINES[(index + 1) % 2], seed)
        yield "moving", found
        slow = replace(found, plant=replace(found.plant, scrape_interval=30.0), interval=30.0)
        yield "moving, scrapes of 30 s", replace(slow, name=f"{found.name}, slow")
    for engine in ENGINES:
        for streams in (1, 4):
            for each in (20.0, 60.0):
                yield f"code and prose, {each:g} s each", alternating(engine, streams, each, seed)


def main() -> None:
    """Print the gain by group, with its 95 % interval over runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    gains: dict[str, list[tuple[float, float]]] = {}
    for seed in range(parser.parse_args().seeds):
        for group, case in cases(seed):
            found = compare(case)
            gains.setdefault(group, []).append(found)
            print(f"{case.name:40s} {100 * found[0]:6.2f} % {100 * found[1]:6.2f} %", flush=True)
    for group, pairs in gains.items():
        gain = np.array([own - told for own, told in pairs])
        error = 1.96 * gain.std(ddof=1) / len(gain) ** 0.5
        print(f"{group}: gain {100 * gain.mean():.2f} ± {100 * error:.2f} points, {len(gain)} runs")


if __name__ == "__main__":
    main()
