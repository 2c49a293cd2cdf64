"""From what a run gathered to its result, and whether it passed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from examples.demo.measure import acceptance_rate, moves, own_parts, rate
from examples.demo.phases import TRACE, Arm
from examples.demo.result import (
    AcceptanceSample,
    ArmStretch,
    Conditions,
    Durations,
    Move,
    OwnPhase,
    PhaseResult,
    Result,
    Simulated,
    Throughput,
)
from examples.demo.run import Log
from examples.demo.stand_ins import SimulatedLap
from examples.kit.lateness import MOST_LATE, is_void
from examples.kit.loads import Load
from examples.kit.records import Requests, during
from examples.kit.status import k_at


def result(
    log: Log,
    conditions: Conditions,
    *,
    total_seconds: float,
    lap: SimulatedLap | None = None,
    notes: Sequence[str] = (),
) -> Result:
    """All raw results of one run. `lap` holds those of the simulated engines, if there were any."""
    outrider = [stretch for stretch in log.stretches if stretch.arm is Arm.OUTRIDER]
    moved = moves(outrider, log.decisions, log.statuses, conditions.static_schedule)
    requests = Requests.of(log.stretches)
    failures = judge(moved, restarts=log.restarts, failed=requests.failed, errors=requests.errors)
    stand_in = simulated(lap) if lap else None
    if stand_in is not None:
        failures += judge_simulated(stand_in)
    return Result(
        passed=not failures,
        failures=failures,
        notes=[*notes, *(late_notes(stand_in) if stand_in else ())],
        phases=[_phase(load, log) for load in TRACE],
        moves=moved,
        decisions=log.decisions,
        pod_restarts=log.restarts,
        requests=requests,
        conditions=conditions,
        durations=Durations(until_ready=log.ready_seconds, driven=log.driven_seconds, total=total_seconds),
        stretches=log.stretches,
        statuses=log.statuses,
        acceptance=_acceptance(log),
        simulated=stand_in,
    )


def simulated(lap: SimulatedLap) -> Simulated:
    """All raw results of the simulated engines."""
    log, spec = lap.log, lap.example.model.spec
    return Simulated(
        engine=lap.engine,
        served_name=lap.example.served_name,
        image=spec.engine.image or "the operator's default",
        candidates=list(spec.candidates()),
        late=lap.late,
        phases=[_own(part, log) for part in own_parts(log.stretches).values()],
        moves=moves(log.stretches, log.decisions, log.statuses, str(spec.static_schedule())),
        decisions=log.decisions,
        pod_restarts=log.restarts,
        requests=Requests.of(log.stretches),
        stretches=log.stretches,
        statuses=log.statuses,
        acceptance=_acceptance(log),
    )


def judge(moved: Sequence[Move], *, restarts: int, failed: int, errors: Sequence[str]) -> list[str]:
    """Why the run did not pass, one sentence each; empty when it did."""
    failures = []
    if not any(move.to_k > move.from_k for move in moved):
        failures.append("Outrider never chose a larger K at the load of the moment.")
    if not any(move.to_k < move.from_k for move in moved):
        failures.append("Outrider never chose a smaller K at the load of the moment.")
    if restarts:
        failures.append(f"Engine pods were restarted or replaced {restarts} times.")
    if failed:
        failures.append(f"{failed} requests failed: {'; '.join(errors)}.")
    return failures


def judge_simulated(found: Simulated) -> list[str]:
    """Return why the simulated engines fail the run. Their K is not judged, because their text is random."""
    failures = []
    if found.pod_restarts:
        failures.append(f"Simulated engine pods were restarted or replaced {found.pod_restarts} times.")
    if found.requests.failed:
        errors = "; ".join(found.requests.errors)
        failures.append(f"{found.requests.failed} requests to simulated engines failed: {errors}.")
    return failures


def late_notes(found: Simulated) -> list[str]:
    """Return a note if the machine was too slow for the simulated engine, or if this is unknown."""
    if found.late is None:
        return ["Simulated: how late the steps were is not known."]
    if is_void(found.late):
        return [
            f"Simulated: the steps took {found.late:.1%} longer than scheduled; above {MOST_LATE:.0%} "
            "the figures describe this machine and not the simulated engine."
        ]
    return []


def _phase(load: Load, log: Log) -> PhaseResult:
    own = [stretch for stretch in log.stretches if stretch.load == load.name]
    return PhaseResult(
        **_own(own_parts(own)[load.name], log).model_dump(),
        static_zero=_throughput(own, Arm.NO_DRAFTS),
        static_largest=_throughput(own, Arm.LONGEST_DRAFTS),
    )


def _own(part: Sequence[ArmStretch], log: Log) -> OwnPhase:
    first = part[0]
    tables = [one.table for stretch in part for one in during(log.statuses, stretch) if one.table]
    drafted = [span for span in log.drafts if any(stretch.covers(span.time) for stretch in part)]
    return OwnPhase(
        phase=first.load,
        prompts=first.prompts,
        streams=first.streams,
        seconds=sum(stretch.end - stretch.start for stretch in part),
        outrider_whole_phase=rate(count for stretch in part for count in stretch.counts),
        outrider_settled=rate(count for stretch in part for count in stretch.counted),
        k_at_start=k_at(tables[0], first.streams) if tables else None,
        k_at_end=k_at(tables[-1], first.streams) if tables else None,
        acceptance_rate=acceptance_rate(drafted),
    )


def _acceptance(log: Log) -> list[AcceptanceSample]:
    return [
        AcceptanceSample(time=span.time, rate=span.accepted / span.drafted, drafted=span.drafted)
        for span in log.drafts
    ]


def _throughput(stretches: Sequence[ArmStretch], arm: Arm) -> Throughput:
    slices = [rate(stretch.counted) for stretch in stretches if stretch.arm is arm]
    known = [value for value in slices if value is not None]
    return Throughput(mean=fmean(known) if known else None, slices=slices)
