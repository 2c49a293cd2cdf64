"""The demo's second run, on a simulated engine: real vLLM that sleeps an H100's step times."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from examples.demo.acceptance import Samples, counter, drafts
from examples.demo.arms import Example
from examples.demo.phases import simulated_visits
from examples.demo.run import WATCH_SECONDS, Log, drive
from examples.demo.steps import steps
from examples.demo.table import SIMULATED, Screen
from examples.kit.cluster import Cluster, RunFailed, address
from examples.kit.lateness import LOST, SCHEDULED
from examples.kit.status import converged, is_true, simulated
from examples.kit.traffic import Traffic
from examples.kit.watch import watching
from outrider.api.conditions import ConditionType
from outrider.api.reasons import DegradedReason
from outrider.api.status import Status

EXAMPLE = Path("examples/twin-h100.yaml")
READY_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class SimulatedLap:
    """Raw results of the run. engine: the GPU's name, as the engines report it. late: see `late`."""

    example: Example
    engine: str
    late: float | None
    log: Log


async def lap(
    cluster: Cluster, real: Example, stand_in: Example, traffic: Traffic, phase_seconds: float, screen: Screen
) -> SimulatedLap:
    """Drive the simulated engine in place of the real model, and apply the real model again in any case.

    Raises:
        RunFailed: no simulated engine started, or it could not be driven.
    """
    screen.say(f"one more run on simulated engines: SpeculativeModel {stand_in.name}")
    own = replace(traffic, url=address(stand_in.name, cluster.namespace), model=stand_in.served_name)
    screen.engine = SIMULATED
    try:
        screen.say(f"removing {real.name}: two engines at once would be late")
        await cluster.delete_model(real.name)
        return await _drive(cluster, stand_in, own, phase_seconds, screen)
    finally:
        # A simulated engine that stays could be mistaken for a real one.
        await cluster.delete_model(stand_in.name)
        await own.stop()
        await cluster.apply(real.manifest)


async def _drive(
    cluster: Cluster, stand_in: Example, traffic: Traffic, phase_seconds: float, screen: Screen
) -> SimulatedLap:
    log, began = Log(), time.monotonic()
    await cluster.delete_model(stand_in.name)
    await cluster.apply(stand_in.manifest)
    await traffic.start()
    engine = await _simulating(cluster, stand_in, screen)
    screen.say(f"the simulated engine serves: {engine}")
    log.ready_seconds = time.monotonic() - began
    pods, started, since = await cluster.engine_pods(stand_in.name), time.monotonic(), time.time()
    async with watching(cluster, stand_in.name, period_seconds=WATCH_SECONDS) as watch:
        for visit in simulated_visits(phase_seconds):
            log.stretches.append(await drive(traffic, screen, watch, visit))
    log.statuses, log.decisions = watch.statuses, list(watch.decisions)
    log.driven_seconds = time.monotonic() - started
    log.restarts = (await cluster.engine_pods(stand_in.name)).restarts_since(pods)
    share = None
    try:
        until = time.time()
        log.drafts = await drafts(cluster, stand_in.name, since, until)
        log.steps = await steps(cluster, stand_in.name, since, until)
        scheduled, lost = [
            await counter(cluster, stand_in.name, name, since, until) for name in (SCHEDULED, LOST)
        ]
        share = late(scheduled, lost)
    except RunFailed as error:
        log.counters_problem = str(error)
    return SimulatedLap(stand_in, engine, share, log)


async def _simulating(cluster: Cluster, stand_in: Example, screen: Screen) -> str:
    """Wait until it serves and the status says that it is simulated; what it says."""

    def serves(status: Status) -> bool:
        problem = missing_image(status)
        if problem is not None:
            raise RunFailed(f"the image of {stand_in.name} is missing: {problem}")
        return is_true(status, ConditionType.READY) and converged(status) and simulated(status) is not None

    complaint = f"{stand_in.name} did not serve and say that it is simulated"
    await cluster.wait(stand_in.name, serves, complaint, READY_SECONDS, screen.say)
    engine = simulated(await cluster.status(stand_in.name))
    if engine is None:
        raise RunFailed(f"{stand_in.name} no longer says that it is simulated")
    return engine


def missing_image(status: Status) -> str | None:
    """What the operator says of an image that cannot be pulled."""
    found = status.condition(ConditionType.DEGRADED)
    if found is None or not is_true(status, ConditionType.DEGRADED):
        return None
    return found.message if found.reason == DegradedReason.IMAGE_PULL_FAILED else None


def late(scheduled: Samples, lost: Samples) -> float | None:
    """Lost over scheduled time between the first and the last samples; None where that is not known."""
    if len(scheduled) < 2 or len(lost) < 2:
        return None
    span, more = (samples[-1][1] - samples[0][1] for samples in (scheduled, lost))
    return more / span if span > 0 and more >= 0 else None
