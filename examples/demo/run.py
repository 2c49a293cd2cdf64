"""One run of the demo: set up, drive every lap, tell what happened."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from examples.demo.acceptance import drafts
from examples.demo.arms import Example, hand_over, wait_ready
from examples.demo.measure import Drafts
from examples.demo.phases import PROMPTS, TRACE, Arm, Durations, Lap, laps
from examples.demo.result import LapStretch
from examples.demo.table import TITLES, Screen
from examples.kit.cluster import Cluster, PodCount, RunFailed
from examples.kit.loads import Load
from examples.kit.records import Count, DecisionSample, StatusSample
from examples.kit.status import simulated
from examples.kit.traffic import Traffic
from examples.kit.warm_up import Patience, warm_up
from examples.kit.watch import Watch, watching

PATIENCE = Patience(rounds=6, seconds=5.0, tokens=8)
WATCH_SECONDS = 2.0
SHOWN_COUNTS = 3
"""The live table's tokens/s is a mean over this many counts."""


@dataclass
class Log:
    """What a run gathered, raw."""

    stretches: list[LapStretch] = field(default_factory=list)
    statuses: list[StatusSample] = field(default_factory=list)
    decisions: list[DecisionSample] = field(default_factory=list)
    drafts: list[Drafts] = field(default_factory=list)
    drafts_problem: str | None = None
    restarts: int = 0
    ready_seconds: float = 0.0
    laps_seconds: float = 0.0


async def run(
    cluster: Cluster,
    example: Example,
    traffic: Traffic,
    durations: Durations,
    screen: Screen,
    ready_timeout: float,
) -> Log:
    """Drive all laps on one fresh model.

    Raises:
        RunFailed: set-up failed or a lap could not be driven; the figures so far are not worth keeping.
    """
    log, started = Log(), time.monotonic()
    pods = await _set_up(cluster, example, traffic, screen, ready_timeout)
    log.ready_seconds = time.monotonic() - started
    laps_started, since = time.monotonic(), time.time()
    async with watching(cluster, example.name, period_seconds=WATCH_SECONDS) as watch:
        # Under a static table, so that the tuner meets the load for the first time in its own lap.
        await hand_over(cluster, example, Arm.NO_DRAFTS)
        for prompts in PROMPTS:
            await warm_up(traffic, prompts, PATIENCE, screen.say)
        await _check_that_it_computes(cluster, example)
        for number, lap in enumerate(laps(durations)):
            screen.say(f"lap {number + 1} of {len(laps(durations))}: {TITLES[lap.arm]}")
            await hand_over(cluster, example, lap.arm)
            for load in TRACE:
                log.stretches.append(await drive(traffic, screen, watch, number, lap, load))
    log.statuses, log.decisions = watch.statuses, list(watch.decisions)
    log.laps_seconds = time.monotonic() - laps_started
    log.restarts = (await cluster.engine_pods(example.name)).restarts_since(pods)
    try:
        log.drafts = await drafts(cluster, example.name, since, time.time())
    except RunFailed as error:
        log.drafts_problem = str(error)
    await cluster.apply(example.for_arm(Arm.OUTRIDER))
    await traffic.stop()
    return log


async def _set_up(
    cluster: Cluster, example: Example, traffic: Traffic, screen: Screen, ready_timeout: float
) -> PodCount:
    screen.say("removing what an earlier run left")
    await cluster.delete_model(example.name)
    screen.say(f"applying SpeculativeModel {example.name}")
    await cluster.apply(example.for_arm(Arm.OUTRIDER))
    await traffic.start()
    await wait_ready(cluster, example, ready_timeout, screen.say)
    screen.say("the model serves")
    return await cluster.engine_pods(example.name)


async def _check_that_it_computes(cluster: Cluster, example: Example) -> None:
    table = simulated(await cluster.status(example.name))
    if table is not None:
        raise RunFailed(f"the engines of {example.name} are simulated ({table}); the laps need real ones")


async def drive(
    traffic: Traffic, screen: Screen, watch: Watch, number: int, lap: Lap, load: Load
) -> LapStretch:
    """Hold one load; raises RunFailed when nothing was counted."""
    counts, told = list[Count](), len(watch.decisions)
    async with aclosing(traffic.hold(load, lap.phase_seconds)) as seen:
        async for count in seen:
            counts.append(count)
            screen.show(lap.arm, load, _recent_rate(counts), watch.last)
            for decision in watch.decisions[told:]:
                screen.decide(decision)
            told = len(watch.decisions)
    if not counts:
        raise RunFailed(f"the load client counted nothing in {load.name}")
    return LapStretch(
        streams=load.streams, prompts=load.prompts, counts=tuple(counts), arm=lap.arm, lap=number
    )


def _recent_rate(counts: Sequence[Count]) -> float:
    """Tokens per second over the last SHOWN_COUNTS counts."""
    recent = counts[-SHOWN_COUNTS:]
    return sum(one.tokens for one in recent) / sum(one.seconds for one in recent)
