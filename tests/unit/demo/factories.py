from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.demo.arms import Example
from examples.demo.measure import Drafts
from examples.demo.outcome import result
from examples.demo.phases import Arm, Durations, Visit, simulated_visits, visits
from examples.demo.result import ArmStretch, Conditions, Result
from examples.demo.run import Log
from examples.demo.stand_ins import SimulatedLap
from examples.demo.steps import Steps
from examples.kit.cluster import Cluster, PodCount, RunFailed
from examples.kit.loads import Prompts
from examples.kit.records import DecisionSample, StatusSample
from outrider.api.status import Status
from tests.unit.kit.factories import a_count


@dataclass(frozen=True)
class FakeCluster(Cluster):
    """Its models have one status for ever. there: the names of those that exist. applied: in order."""

    told: Status = field(default_factory=Status)
    there: set[str] = field(default_factory=set)
    applied: list[Mapping[str, Any]] = field(default_factory=list)

    async def apply(self, manifest: Mapping[str, Any]) -> None:
        self.there.add(manifest["metadata"]["name"])
        self.applied.append(manifest)

    async def apply_model(self, manifest: Mapping[str, Any]) -> int:
        await self.apply(manifest)
        return 0

    async def get_raw(self, path: str) -> dict[str, Any]:
        raise RunFailed(f"nobody answers {path}")

    async def delete_model(self, name: str) -> None:
        self.there.discard(name)

    async def status(self, name: str) -> Status:
        assert name in self.there
        return self.told

    async def engine_pods(self, name: str) -> PodCount:  # noqa: ARG002
        return PodCount({})


def a_stretch(
    *,
    tokens: tuple[int, ...] = (100,) * 20,
    start: float = 0.0,
    streams: int = 1,
    arm: Arm = Arm.OUTRIDER,
    uncounted: float = 0.0,
) -> ArmStretch:
    """One second for each entry of `tokens`."""
    counts = tuple(a_count(start + index, tokens=count) for index, count in enumerate(tokens, start=1))
    return ArmStretch(streams=streams, prompts=Prompts.CODE, counts=counts, arm=arm, uncounted=uncounted)


def a_driven(visit: Visit, *, tokens: tuple[int, ...], start: float) -> ArmStretch:
    """What a visit would have left behind."""
    stretch = a_stretch(
        tokens=tokens,
        start=start,
        streams=visit.load.streams,
        arm=visit.arm,
        uncounted=visit.uncounted,
    )
    return stretch.model_copy(update={"prompts": visit.load.prompts})


def a_status(time: float, table: str | None) -> StatusSample:
    return StatusSample(time=time, table=table)


def decided(time: float, to: str, reason: str) -> DecisionSample:
    return DecisionSample(time=time, from_table="*:3", to_table=to, reason=reason)


BATCH_RATES = {Arm.NO_DRAFTS: 100, Arm.LONGEST_DRAFTS: 150, Arm.OUTRIDER: 160}
"""Tokens per second of each arm in `a_log`."""


def a_log(*, failed: int = 0, restarts: int = 0) -> Log:
    """A whole run with steady rates in which K goes 3 -> 5 in every code phase and 3 -> 0 in every other.

    In learning Outrider makes half as many tokens as after it.
    """
    log, time = Log(restarts=restarts), 1000.0
    for visit in visits(Durations(learning=16.0, static=6.0, own=14.0)):
        counts = (BATCH_RATES[visit.arm] // (1 if visit.counts else 2),) * int(visit.seconds)
        stretch = a_driven(visit, tokens=counts, start=time)
        log.stretches.append(stretch)
        if visit.arm is Arm.OUTRIDER and visit.counts:
            log.steps.append(some_steps(time + 6))
        elif visit.arm is Arm.OUTRIDER:
            chosen = "*:5" if visit.load.prompts is Prompts.CODE else "*:0"
            log.statuses += [a_status(time + 1, "*:3"), a_status(time + 11, chosen)]
            log.decisions.append(decided(time + 11, chosen, "BetterK"))
            log.drafts += some_drafts(time, accepted=80.0)
        time = stretch.end + 1.0
    _fail_in_the_first(log, failed)
    return log


def some_steps(time: float, *, chosen: float = 100.0) -> Steps:
    """A hundred, of which each second one drafts."""
    return Steps(time, {0: 50.0, 5: 50.0}, chosen, total=100.0)


def some_drafts(time: float, *, accepted: float) -> list[Drafts]:
    """Of three scrapes in the phase that begins at `time`, which scatter around `accepted` of a hundred."""
    return [Drafts(time + 5 * part, accepted + 2 * (part - 2), 100.0) for part in (1, 2, 3)]


def _fail_in_the_first(log: Log, failed: int) -> None:
    if failed:
        first = log.stretches[0]
        counted = (*first.counts[:-1], a_count(first.end, failed=failed))
        log.stretches[0] = first.model_copy(update={"counts": counted})


def some_conditions() -> Conditions:
    return Conditions(
        command="python -m examples.demo",
        started="2026-01-01T00:00:00+00:00",
        cluster="kind-outrider, 1 node(s)",
        kubernetes_version="v1.36.3",
        engine_image="engine",
        engine_version="0.32.0",
        outrider_version="0.1.0",
        client_image="client",
        node_cores=2,
        node_memory="24Gi",
        client_machine="Linux x86_64, 2 cores",
        max_tokens=256,
        temperature=0.0,
        largest_k=5,
        candidates=[0, 1, 2, 3, 5],
        static_schedule="8:3,*:0",
        on_gpus=False,
    )


STAND_IN = Example.read(Path("examples/twin-h100.yaml"))


def a_simulated_lap(*, failed: int = 0, restarts: int = 0, late: float | None = 0.001) -> SimulatedLap:
    """A lap on a stand-in in which K goes 3 -> 5 in every phase."""
    log, time = Log(restarts=restarts), 5000.0
    for visit in simulated_visits(30.0):
        stretch = a_driven(visit, tokens=(900,) * 30, start=time)
        log.stretches.append(stretch)
        log.statuses += [a_status(time + 1, "*:3"), a_status(time + 11, "*:5")]
        log.decisions.append(decided(time + 11, "*:5", "BetterK"))
        log.drafts += some_drafts(time, accepted=50.0)
        log.steps.append(some_steps(time + 20))
        time = stretch.end + 1.0
    _fail_in_the_first(log, failed)
    return SimulatedLap(STAND_IN, "h100_8b", late, log)


def a_result(
    *, failed: int = 0, restarts: int = 0, lap: SimulatedLap | None = None, notes: Sequence[str] = ()
) -> Result:
    log = a_log(failed=failed, restarts=restarts)
    return result(log, some_conditions(), total_seconds=700.0, lap=lap, notes=notes)
