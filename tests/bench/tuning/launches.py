"""``python -m tests.bench.tuning.launches``: which launch `verification: Auto` or a new drafter ends with.

Replicas and a canary are simulated engines under open traffic, and follow every order within a tick. Where
verifying is expensive and two texts meet, adaptive verification is better; where it is free, both are equal.
A worse one is a launch whose steps take longer. A new drafter has other acceptance, too. Simulated: formulas,
no engine.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from math import expm1

import numpy as np

from outrider.api.launch import DrafterTrial, Launch, RelaunchPolicy
from outrider.api.tuning import Canary
from outrider.performance.step_time import StepTime
from outrider.tuning.decision import Decision
from outrider.tuning.estimate.contrast import Contrast
from outrider.tuning.observe.window import Observation
from outrider.tuning.policy import Policy
from outrider.tuning.relaunch.inputs import RelaunchInput
from outrider.tuning.relaunch.judge import judge
from outrider.tuning.relaunch.state import RelaunchState
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from outrider_lab.engines import fleet as fleets
from outrider_lab.engines.event_fleet import EventFleet, Plant
from outrider_lab.engines.verification.setting import AdaptiveVerification
from outrider_lab.rivals.tuners import hand_table
from outrider_lab.traffic.requests import Trace, Traffic

TICK, HOUR = 10.0, 3600.0
LAW = Policy(candidates=(0, 1, 2, 3, 5), max_num_seqs=64)
CODE = (0.9, 0.9, 0.88, 0.88, 0.85)
CHAT = (0.7, 0.65, 0.6, 0.6, 0.6)
PROSE = (0.12, 0.1, 0.1, 0.1, 0.1)
EXPENSIVE = StepTime(0.02, 5e-8, 1.2e-3, 1e-3, 5e-9, 5e-5, idle_tax=0.05)
"""Each verified token costs 6 % of an empty step."""
FREE = replace(EXPENSIVE, per_token=2e-5)


@dataclass(frozen=True)
class Case:
    """Traffic of each pod, step times, and a factor on the step times of adaptive launches."""

    name: str
    step: StepTime
    phases: tuple[Traffic, ...]
    slower: float = 1.0
    pods: tuple[float, ...] = (1.0, 1.0)  # factors on the step time, the canary's last
    trims: bool = False  # adaptive launches run vLLM's rule; otherwise they differ in step time alone
    better: str = ""  # "adaptive" or "fixed"; "": equal
    drafter: float = 0.0  # of a new drafter: acceptance to this power; 0: verification is compared


def opened(rate: float, acceptance: Sequence[float], seconds: float, **changes: float) -> Traffic:
    """Open traffic of one pod. rate: requests per second."""
    return Traffic(seconds, tuple(acceptance), rate=rate, cached=1e6, **changes)  # type: ignore[arg-type]


@dataclass
class Side:
    """The pods of one launch: their engines and their tuner."""

    fleet: EventFleet
    state: TunerState
    decision: Decision | None = None
    seen: tuple[Observation, ...] = ()

    def advance(self, until: float) -> None:
        """Serve until a moment, with the last decision."""
        probe = None if self.decision is None else self.decision.probe
        self.seen = self.fleet.advance(until, self.state.schedule, probe).observations

    def decide(self, now: float, other: Sequence[Observation]) -> Decision:
        """One tick of the tuner of these pods."""
        context = TickContext(self.seen, self.state, policy=LAW, now=now, other_launch=other)
        self.decision = decide(context)
        self.state = self.decision.state
        return self.decision


def side(case: Case, *, adaptive: bool, pods: Sequence[float], seed: int) -> Side:
    """Engines that just started."""
    power = case.drafter if adaptive and case.drafter else 1.0
    phases = tuple(
        replace(
            phase,
            rate=(phase.rate or 0) * len(pods),
            acceptance=tuple(each**power for each in phase.acceptance),
        )
        for phase in case.phases
    )
    trace = Trace(phases, pods=len(pods), seed=seed)
    factor = case.slower if adaptive else 1.0
    plant = Plant(case.step, slowness=tuple(pod * factor for pod in pods))
    fleet = EventFleet(
        plant, trace, edges=LAW.bins, candidates=LAW.candidates, rng=np.random.default_rng(seed)
    )
    if adaptive and case.trims:
        fleet.launch(fleets.Launch(verification=AdaptiveVerification()))
    return Side(fleet, TunerState.start(hand_table(LAW.candidates), LAW))


@dataclass(frozen=True)
class Outcome:
    """What a comparison ended with."""

    case: str
    seed: int
    wanted: str  # "adaptive", "fixed" or "": keep
    gain: float  # percent
    low: float
    high: float


def compare(case: Case, *, seed: int, adaptive: bool = False) -> Outcome:
    """One comparison. adaptive: replicas verify adaptively, and the canary does not."""
    *replicas, canary = case.pods
    ours = side(case, adaptive=adaptive, pods=replicas, seed=seed)
    theirs = side(case, adaptive=not adaptive, pods=[canary], seed=seed + 100)
    launch = Launch(adaptive=adaptive)
    state = RelaunchState().relaunched(launch, 0.0, within=0.0).seen(complete=True, canary=False, now=0.0)
    tries = DrafterTrial("new") if case.drafter else None
    if tries is not None:
        state = RelaunchState()
    limits = RelaunchPolicy(
        compares=tries is None, canary=Canary.ALLOW if tries else Canary.NEVER, interval_seconds=60.0
    )
    now, ends, wanted = 0.0, sum(p.seconds for p in case.phases), ""
    while now < ends - TICK:
        now += TICK
        ours.advance(now)
        theirs.advance(now)
        canary = tries is not None or state.order.canary is not None
        decision = ours.decide(now, theirs.seen if canary else ())
        contrast = _contrast(decision, theirs.decide(now, ours.seen), adaptive=adaptive)
        inputs = RelaunchInput(
            limits,
            decision,
            ours.state.static,
            replicas=len(case.pods),
            ready=len(replicas) + (not canary),
            as_ordered=len(replicas) + (not canary),
            canaries=int(canary),
            now=now,
            contrast=contrast,
            trial=tries,
        )
        verdict = judge(inputs, state, LAW)
        state = verdict.state
        if state.order.launch != launch:
            wanted = "adaptive" if state.order.launch.adaptive else "fixed"
            break
        if state.order.drafter is not None:
            wanted = "promoted" if state.order.drafter.promoted else "returned"
            break
    found = state.drafter if tries is not None else state.verification
    assert found is not None
    return Outcome(
        case.name,
        seed,
        wanted,
        gain=100 * expm1(found.mean),
        low=100 * expm1(found.low),
        high=100 * expm1(found.high),
    )


def _contrast(decision: Decision, counterpart: Decision, *, adaptive: bool) -> Contrast | None:
    """One tick, adaptive over fixed, as the operator averages it."""
    found, back = (
        None if each.outlook is None else each.outlook.contrast for each in (decision, counterpart)
    )
    if found is None or back is None:
        return None
    found = found.averaged(back.reversed())
    return found.reversed() if adaptive else found


def cases() -> Mapping[str, Case]:
    """The traffic that favours each, and the traffic that hurts."""
    whole = 960.0
    turns = tuple(opened(0.55, (CODE, PROSE)[index % 2], 40.0) for index in range(int(whole / 40.0)))
    moving = tuple(opened(rate, CHAT, 60.0) for rate in (0.2, 0.5, 1.2, 0.9, 0.3) * int(whole / 300.0 + 1))
    chat = (opened(0.9, CHAT, whole),)
    return {
        each.name: each
        for each in (
            Case("better, two texts", EXPENSIVE, turns, trims=True, better="adaptive"),
            Case("better, one text", EXPENSIVE, chat, trims=True, better="adaptive"),
            Case("equal", FREE, chat),
            Case("equal, slower pod", FREE, chat, pods=(1.0, 1.02)),
            Case("equal, moving", FREE, moving),
            Case("worse by 20 %", FREE, chat, slower=1.25, better="fixed"),
            Case("worse by 20 %, moving", FREE, moving, slower=1.25, better="fixed"),
            Case("better by 20 %", FREE, chat, slower=0.8, better="adaptive"),
            Case("better by 20 %, moving", FREE, moving, slower=0.8, better="adaptive"),
            Case("drafter: better", EXPENSIVE, chat, drafter=0.4, better="promoted"),
            Case("drafter: better, moving", EXPENSIVE, moving, drafter=0.4, better="promoted"),
            Case("drafter: equal", EXPENSIVE, chat, drafter=1.0, better="promoted"),
            Case("drafter: equal, moving", EXPENSIVE, moving, drafter=1.0, better="promoted"),
            Case(
                "drafter: equal, slower pod",
                EXPENSIVE,
                chat,
                drafter=1.0,
                pods=(1.0, 1.02),
                better="promoted",
            ),
            Case("drafter: equal, two texts", EXPENSIVE, turns, drafter=1.0, better="promoted"),
            Case("drafter: worse", EXPENSIVE, chat, drafter=2.5, better="returned"),
            Case("drafter: worse, moving", EXPENSIVE, moving, drafter=2.5, better="returned"),
            Case("drafter: dearer", EXPENSIVE, chat, drafter=1.0, slower=1.15, better="returned"),
            Case("drafter: better, dearer", EXPENSIVE, chat, drafter=0.4, slower=1.05, better="promoted"),
        )
    }


def _job(job: tuple[str, int, bool]) -> Outcome:
    name, seed, adaptive = job
    return compare(cases()[name], seed=seed, adaptive=adaptive)


def main(seeds: str = "3", *names: str) -> None:
    """Print one row per case and present launch."""
    cells = product(names or cases(), range(int(seeds)), (False, True))
    # The replicas always have the drafter before.
    jobs = [job for job in cells if not (job[2] and cases()[job[0]].drafter)]
    with ProcessPoolExecutor(2) as pool:
        for (name, seed, adaptive), found in zip(jobs, pool.map(_job, jobs), strict=True):
            print(
                f"{name:24} {'A' if adaptive else 'F'} {seed} {found.wanted or 'keep':9} "
                f"{found.gain:+6.1f} [{found.low:+6.1f}, {found.high:+6.1f}]",
                flush=True,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
