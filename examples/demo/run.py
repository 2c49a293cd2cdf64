"""One run of the demo: set up, drive every arm under every load, report the results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from examples.demo.acceptance import drafts
from examples.demo.arms import Example, hand_over, wait_ready
from examples.demo.measure import Drafts
from examples.demo.phases import PROMPTS, Arm, Durations, Visit, visits
from examples.demo.result import ArmStretch
from examples.demo.steps import Steps, steps
from examples.demo.table import TITLES, Screen
from examples.kit.cluster import Cluster, PodCount, RunFailed
from examples.kit.records import Count, DecisionSample, StatusSample
from examples.kit.status import simulated
from examples.kit.traffic import Traffic
from examples.kit.warm_up import Patience, warm_up
from examples.kit.watch import Watch, watching

PATIENCE = Patience(rounds=6, seconds=5.0, tokens=8)
WATCH_SECONDS = 2.0
SHOWN_COUNTS = 3
"""Counts in the mean of tokens/s on the screen."""


@dataclass
class Log:
    """What a run gathered, raw."""

    stretches: list[ArmStretch] = field(default_factory=list)
    statuses: list[StatusSample] = field(default_factory=list)
    decisions: list[DecisionSample] = field(default_factory=list)
    drafts: list[Drafts] = field(default_factory=list)
    steps: list[Steps] = field(default_factory=list)
    counters_problem: str | None = None
    """Why drafts or steps are missing."""
    restarts: int = 0
    ready_seconds: float = 0.0
    driven_seconds: float = 0.0


async def run(
    cluster: Cluster,
    example: Example,
    traffic: Traffic,
    durations: Durations,
    screen: Screen,
    ready_timeout: float,
) -> Log:
    """Drive all arms on one fresh model.

    Raises:
        RunFailed: set-up failed or a load could not be driven; the figures so far are not worth keeping.
    """
    log, started = Log(), time.monotonic()
    pods = await _set_up(cluster, example, traffic, screen, ready_timeout)
    log.ready_seconds = time.monotonic() - started
    began, since = time.monotonic(), time.time()
    async with watching(cluster, example.name, period_seconds=WATCH_SECONDS) as watch:
        # Overruled, so that the warm-up teaches the tuner nothing of the loads to come.
        await hand_over(cluster, example, Arm.NO_DRAFTS)
        for prompts in PROMPTS:
            await warm_up(traffic, prompts, PATIENCE, screen.say)
        await _check_that_it_computes(cluster, example)
        planned = visits(durations)
        for number, visit in enumerate(planned, start=1):
            learning = "" if visit.counts else ", learning"
            screen.say(f"{number} of {len(planned)}: {visit.load.name}, {TITLES[visit.arm]}{learning}")
            await hand_over(cluster, example, visit.arm)
            log.stretches.append(await drive(traffic, screen, watch, visit))
    log.statuses, log.decisions = watch.statuses, list(watch.decisions)
    log.driven_seconds = time.monotonic() - began
    log.restarts = (await cluster.engine_pods(example.name)).restarts_since(pods)
    try:
        until = time.time()
        log.drafts = await drafts(cluster, example.name, since, until)
        log.steps = await steps(cluster, example.name, since, until)
    except RunFailed as error:
        log.counters_problem = str(error)
    await cluster.apply(example.manifest)
    await traffic.stop()
    return log


async def _set_up(
    cluster: Cluster, example: Example, traffic: Traffic, screen: Screen, ready_timeout: float
) -> PodCount:
    screen.say("removing what an earlier run left")
    await cluster.delete_model(example.name)
    screen.say(f"applying SpeculativeModel {example.name}")
    await cluster.apply(example.manifest)
    await traffic.start()
    await wait_ready(cluster, example, ready_timeout, screen.say)
    screen.say("the model serves")
    return await cluster.engine_pods(example.name)


async def _check_that_it_computes(cluster: Cluster, example: Example) -> None:
    table = simulated(await cluster.status(example.name))
    if table is not None:
        raise RunFailed(f"the engines of {example.name} are simulated ({table}); the demo needs real ones")


async def drive(traffic: Traffic, screen: Screen, watch: Watch, visit: Visit) -> ArmStretch:
    """Hold one load; raises RunFailed when nothing was counted."""
    counts, told, load = list[Count](), len(watch.decisions), visit.load
    async with aclosing(traffic.hold(load, visit.seconds)) as seen:
        async for count in seen:
            counts.append(count)
            screen.show(visit.arm, load, _recent_rate(counts), watch.last)
            for decision in watch.decisions[told:]:
                screen.decide(decision)
            told = len(watch.decisions)
    if not counts:
        raise RunFailed(f"the load client counted nothing in {load.name}")
    return ArmStretch(
        streams=load.streams,
        prompts=load.prompts,
        counts=tuple(counts),
        arm=visit.arm,
        uncounted=_uncounted(visit, counts),
    )


def _uncounted(visit: Visit, counts: Sequence[Count]) -> float:
    """All that was driven where nothing counts: a last count may come later than planned."""
    driven = counts[-1].time - counts[0].time + counts[0].seconds
    return visit.uncounted if visit.counts else max(visit.uncounted, driven)


def _recent_rate(counts: Sequence[Count]) -> float:
    """Tokens per second over the last SHOWN_COUNTS counts."""
    recent = counts[-SHOWN_COUNTS:]
    return sum(one.tokens for one in recent) / sum(one.seconds for one in recent)
