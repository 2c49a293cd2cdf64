"""One run of the demo: set up, drive every lap, tell what happened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field

from examples.demo.arms import Example, hand_over, wait_ready
from examples.demo.cluster import Cluster, DemoFailed, PodCount
from examples.demo.measure import Drafts, Observed, Second, Stretch
from examples.demo.phases import TRACE, Arm, Durations, Lap, Phase, laps
from examples.demo.prompts import Kind
from examples.demo.table import TITLES, Screen
from examples.demo.traffic import Traffic
from examples.demo.warm_up import Patience, warm_up
from examples.demo.watch import Watch, drafts
from outrider.api.status import DecisionRecord

PATIENCE = Patience(rounds=6, seconds=5.0, tokens=8)
SHOWN_COUNTS = 3
"""The live table's tokens/s is a mean over this many counts."""


@dataclass
class Log:
    """What a run gathered, raw."""

    stretches: list[Stretch] = field(default_factory=list)
    observed: list[Observed] = field(default_factory=list)
    decisions: list[DecisionRecord] = field(default_factory=list)
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
        DemoFailed: set-up failed or a lap could not be driven; the figures so far are not worth keeping.
    """
    log, started = Log(), time.monotonic()
    pods = await _set_up(cluster, example, traffic, screen, ready_timeout)
    log.ready_seconds = time.monotonic() - started
    laps_started, since = time.monotonic(), time.time()
    async with _watching(Watch(cluster, example.name), log) as watch:
        # Under a static table, so that the tuner meets the load for the first time in its own lap.
        await hand_over(cluster, example, Arm.NO_DRAFTS)
        for kind in Kind:
            await warm_up(traffic, (kind,), PATIENCE, screen.say)
        for number, lap in enumerate(laps(durations)):
            screen.say(f"lap {number + 1} of {len(laps(durations))}: {TITLES[lap.arm]}")
            await hand_over(cluster, example, lap.arm)
            for phase in TRACE:
                log.stretches.append(await _drive(traffic, screen, watch, number, lap, phase))
    log.laps_seconds = time.monotonic() - laps_started
    log.restarts = (await cluster.engine_pods(example.name)).restarts_since(pods)
    try:
        log.drafts = await drafts(cluster, example.name, since, time.time())
    except DemoFailed as error:
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


async def _drive(
    traffic: Traffic, screen: Screen, watch: Watch, number: int, lap: Lap, phase: Phase
) -> Stretch:
    seconds, told = list[Second](), len(watch.decisions)
    async with aclosing(traffic.drive(phase, lap.phase_seconds)) as drive:
        async for second in drive:
            seconds.append(second)
            screen.show(lap.arm, phase, _recent_rate(seconds), watch.last)
            for decision in watch.decisions[told:]:
                screen.decide(decision)
            told = len(watch.decisions)
    if not seconds:
        raise DemoFailed(f"the load client counted nothing in {phase.name}")
    return Stretch(lap.arm, number, phase, tuple(seconds))


def _recent_rate(counts: Sequence[Second]) -> float:
    """Tokens per second over the last SHOWN_COUNTS counts."""
    recent = counts[-SHOWN_COUNTS:]
    return sum(one.tokens for one in recent) / sum(one.seconds for one in recent)


@asynccontextmanager
async def _watching(watch: Watch, log: Log) -> AsyncIterator[Watch]:
    """Follow the status meanwhile."""
    task = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        task.cancel()
        log.observed, log.decisions = watch.observed, watch.decisions
        with suppress(asyncio.CancelledError):
            await task
