"""From what a run gathered to its result, and whether it passed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from examples.demo.measure import acceptance_rate, moves, own_parts, rate
from examples.demo.phases import TRACE, Arm
from examples.demo.result import (
    AcceptanceSample,
    ArmStretch,
    Conditions,
    Durations,
    OwnPhase,
    PhaseResult,
    Result,
    Simulated,
    StepsSample,
    Throughput,
)
from examples.demo.run import Log
from examples.demo.stand_ins import SimulatedLap
from examples.demo.steps import mean_k, together
from examples.kit.lateness import MOST_LATE, is_void
from examples.kit.loads import Load, Prompts
from examples.kit.records import Requests, during
from examples.kit.status import k_at

MOVED_K = 0.5
"""Distance of the mean K in use from that of the static schedule, from which on K has moved."""
RARELY = 0.5
"""Ratio of steps. Where texts take turns, engines that choose K less often are noted."""


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
    phases = [_phase(load, log) for load in TRACE]
    moves_of_k = [*(move.to_k - move.from_k for move in moved), *moved_in_use(phases, conditions)]
    failures = judge(moves_of_k, restarts=log.restarts, failed=requests.failed, errors=requests.errors)
    stand_in = simulated(lap) if lap else None
    if stand_in is not None:
        failures += judge_simulated(stand_in)
    return Result(
        passed=not failures,
        failures=failures,
        notes=[*notes, *schedule_notes(phases), *(late_notes(stand_in) if stand_in else ())],
        phases=phases,
        moves=moved,
        decisions=log.decisions,
        pod_restarts=log.restarts,
        requests=requests,
        conditions=conditions,
        durations=Durations(until_ready=log.ready_seconds, driven=log.driven_seconds, total=total_seconds),
        stretches=log.stretches,
        statuses=log.statuses,
        acceptance=_acceptance(log),
        k_in_use=_k_in_use(log),
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
        k_in_use=_k_in_use(log),
    )


def moved_in_use(phases: Iterable[OwnPhase], conditions: Conditions) -> list[float]:
    """Distances of K in use from the static schedule's, one for each phase in which K moved that far."""
    static = conditions.static_schedule
    known = [(phase.k_in_use, phase.streams) for phase in phases]
    found = [k - k_at(static, streams) for k, streams in known if k is not None]
    return [distance for distance in found if abs(distance) >= MOVED_K]


def judge(moves_of_k: Sequence[float], *, restarts: int, failed: int, errors: Sequence[str]) -> list[str]:
    """Why the run did not pass, one sentence each; empty when it did.

    moves_of_k: changes of K at the load of their moment, in the schedule or in the engine.
    """
    failures = []
    if not any(change > 0 for change in moves_of_k):
        failures.append("Neither the schedule nor the engine went to a larger K at the load of the moment.")
    if not any(change < 0 for change in moves_of_k):
        failures.append("Neither the schedule nor the engine went to a smaller K at the load of the moment.")
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


def schedule_notes(phases: Iterable[OwnPhase]) -> list[str]:
    """Return a note if the schedule chose K where texts took turns, since a schedule cannot follow them."""
    return [
        f"{phase.phase}: the engine chose K at {phase.chosen_by_engine:.0%} of its steps after learning; "
        "the schedule chose K at the others."
        for phase in phases
        if phase.prompts == Prompts.TURNS
        and phase.chosen_by_engine is not None
        and phase.chosen_by_engine < RARELY
    ]


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
    settled = [span for span in log.steps if any(stretch.compares(span.time) for stretch in part)]
    by_k = together(span.by_k for span in settled)
    steps = sum(span.total for span in settled)
    return OwnPhase(
        phase=first.load,
        prompts=first.prompts,
        streams=first.streams,
        seconds=sum(stretch.end - stretch.start for stretch in part),
        outrider_whole_phase=rate(count for stretch in part for count in stretch.counts),
        outrider_settled=rate(count for stretch in part for count in stretch.counted),
        k_at_start=k_at(tables[0], first.streams) if tables else None,
        k_at_end=k_at(tables[-1], first.streams) if tables else None,
        k_in_use=mean_k(by_k),
        steps_by_k=by_k,
        chosen_by_engine=min(1.0, sum(span.chosen for span in settled) / steps) if steps else None,
        acceptance_rate=acceptance_rate(drafted),
    )


def _acceptance(log: Log) -> list[AcceptanceSample]:
    return [
        AcceptanceSample(time=span.time, rate=span.accepted / span.drafted, drafted=span.drafted)
        for span in log.drafts
    ]


def _k_in_use(log: Log) -> list[StepsSample]:
    means = ((span.time, mean_k(span.by_k)) for span in log.steps)
    return [StepsSample(time=time, k=k) for time, k in means if k is not None]


def _throughput(stretches: Sequence[ArmStretch], arm: Arm) -> Throughput:
    slices = [rate(stretch.counted) for stretch in stretches if stretch.arm is arm]
    known = [value for value in slices if value is not None]
    return Throughput(mean=fmean(known) if known else None, slices=slices)
