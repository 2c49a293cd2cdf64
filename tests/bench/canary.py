"""``python -m tests.bench.canary``: how right and how soon a canary is, simulated. No cluster needed.

Two pods of an H100 with a drafter, one of which then gives way to a canary. Each minute all clients come anew
and are dealt over the pods by chance, so that both seldom have the same load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import expm1
from statistics import fmean
from typing import Annotated

import numpy as np
import typer

from outrider.performance.step_time import StepTime
from outrider.tuning.decision import Decision, Probe
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from outrider.tuning.observe.window import Observation
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from outrider_lab.engines.event_fleet import EventFleet, Plant
from outrider_lab.traffic.requests import Trace, Traffic
from outrider_protocol.schedule import Schedule
from tests.bench.tuning.moving import engines

STREAMS = 16
TICK, MINUTE, WARM_SECONDS = 5.0, 60.0, 120.0
SURVIVAL = (1.0, 0.694, 0.46, 0.318, 0.23, 0.175)
"""Of ShareGPT on that engine."""
CANDIDATES = (0, 1, 2, 3, 5)
STATIC = Schedule.parse("8:3,16:1,*:0")
DRAFTS, OTHER, CANARY = "default/a", "default/b", "default/canary"


@dataclass(frozen=True)
class Found:
    """One canary. tax: relative, None without a result.

    seconds: that it stayed. looked: of these, at K=0 in slices.
    """

    tax: float | None
    deviation: float
    seconds: float
    looked: float


def canary(given: float, seed: int, *, noise: float = 0.01, **numbers: float) -> Found:
    """One run. noise: relative, of what is measured in 10 s. numbers: of the policy, to change."""
    policy = Policy(CANDIDATES, 64).changed(**numbers)
    limit = policy.relaunch
    pods = _Pods(given, seed, noise, policy, WARM_SECONDS + limit.canary_seconds)
    state, decision, now, looked = TunerState.start(STATIC, policy), None, 0.0, 0.0
    while now < WARM_SECONDS + limit.canary_seconds:
        now += TICK
        served = now > WARM_SECONDS
        seen, bare = pods.advance(now, decision, canary=served)
        decision = decide(TickContext(seen, state, policy=policy, now=now, without_drafter=bare))
        state = decision.state
        tax = state.canary.overhead
        if tax is not None and tax.deviation <= limit.canary_deviation:
            break
        looked += _at_zero(decision.probe) if served else 0.0
    tax = state.canary.overhead or IdleDrafterOverhead.prior(policy.estimation)
    told = expm1(tax.mean) if state.canary.overhead is not None else None
    return Found(told, tax.deviation, now - WARM_SECONDS, looked)


class _Pods:
    """The pod that drafts, the other one, and what stands in for it."""

    def __init__(self, given: float, seed: int, noise: float, policy: Policy, seconds: float) -> None:
        rng = np.random.default_rng((seed, 9))
        minutes = int(seconds / MINUTE) + 2
        mine = [min(max(int(rng.binomial(STREAMS, 0.5)), 1), STREAMS - 1) for _ in range(minutes)]
        others = [STREAMS - streams for streams in mine]
        bare = engines()["h100_8b"].without_drafter()
        taxed = replace(bare, idle_tax=given)
        self._fleets = {
            DRAFTS: _fleet(taxed, mine, seed, noise, policy),
            OTHER: _fleet(taxed, others, seed + 100, noise, policy),
            CANARY: _fleet(bare, others, seed + 100, noise, policy),
        }

    def advance(
        self, now: float, decision: Decision | None, *, canary: bool
    ) -> tuple[Sequence[Observation], Sequence[Observation]]:
        """What was seen of pods with a drafter, and of those without."""
        schedule = STATIC if decision is None else decision.schedule
        probe = None if decision is None else decision.probe
        seen = list[Observation]()
        for name in (DRAFTS,) if canary else (DRAFTS, OTHER):
            its = replace(probe, pod="default/engine-0") if probe and probe.pod == name else None
            seen += self._watched(name, now, schedule, its)
        bare = self._watched(CANARY, now, Schedule.constant(0), None)
        return seen, bare if canary else ()

    def _watched(
        self, name: str, now: float, schedule: Schedule, probe: Probe | None
    ) -> Sequence[Observation]:
        tick = self._fleets[name].advance(now, schedule, probe)
        return [replace(one, pod=name) for one in tick.observations]


def _fleet(step: StepTime, streams: Sequence[int], seed: int, noise: float, policy: Policy) -> EventFleet:
    acceptance = tuple(after / before for before, after in pairwise(SURVIVAL))
    phases = tuple(
        Traffic(MINUTE, acceptance, streams=count, prompt=30.0, output=256.0, length_spread=0.05, anew=True)
        for count in streams
    )
    plant = Plant(step, noise=noise, scrape_interval=1.0)
    rng = np.random.default_rng(seed)
    return EventFleet(plant, Trace(phases, seed=seed), edges=policy.bins, candidates=CANDIDATES, rng=rng)


def _at_zero(probe: Probe | None) -> float:
    slices = () if probe is None else probe.slices
    return sum(one.seconds for one in slices if one.num_speculative_tokens == 0)


def main(
    seeds: Annotated[int, typer.Option(min=1)] = 5,
    tax: Annotated[list[float] | None, typer.Option(min=0.0)] = None,
    deviation: Annotated[list[float] | None, typer.Option(help="`canary_deviation`.")] = None,
) -> None:
    """One line for each tax and deviation."""
    for given in tax or [0.03, 0.10]:
        for limit in deviation or [0.02]:
            runs = [canary(given, seed, canary_deviation=limit) for seed in range(seeds)]
            told = [run.tax for run in runs if run.tax is not None]
            errors = [100 * (one - given) for one in told]
            spread = fmean(error**2 for error in errors) ** 0.5 if errors else float("nan")
            print(
                f"tax {given:.0%}, canary_deviation {limit:g}: {len(told)} of {seeds} told; errors "
                f"{', '.join(f'{error:+.1f}' for error in errors)} points, root mean square {spread:.1f}; "
                f"stayed {min(run.seconds for run in runs):.0f} to {max(run.seconds for run in runs):.0f} s, "
                f"{fmean(run.seconds for run in runs):.0f} on average, K=0 looked at for "
                f"{fmean(run.looked for run in runs):.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    typer.run(main)
