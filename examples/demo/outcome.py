"""From what a run gathered to its result, and whether it passed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from examples.demo.measure import (
    Decided,
    Move,
    Observed,
    Stretch,
    acceptance_rate,
    k_at,
    moves,
    rate,
    slice_rate,
)
from examples.demo.phases import TRACE, Arm, Phase
from examples.demo.result import (
    AcceptanceSample,
    Conditions,
    DecisionResult,
    Durations,
    MoveResult,
    PhaseResult,
    Requests,
    Result,
    Sample,
    StatusSample,
    Throughput,
)
from examples.demo.run import Log


def result(log: Log, conditions: Conditions, *, total_seconds: float) -> Result:
    """Everything that one run found."""
    began = log.stretches[0].start
    outrider = [stretch for stretch in log.stretches if stretch.arm is Arm.OUTRIDER]
    decided = [Decided(one.time.timestamp(), one.to, one.reason) for one in log.decisions]
    moved = moves(outrider, decided, log.observed, conditions.static_schedule)
    requests = _requests(log.stretches)
    failures = judge(moved, restarts=log.restarts, failed=requests.failed, errors=requests.errors)
    return Result(
        passed=not failures,
        failures=failures,
        phases=[_phase(phase, log) for phase in TRACE],
        moves=[
            MoveResult(
                seconds=one.time - outrider[0].start,
                phase=one.phase,
                streams=one.streams,
                from_k=one.from_k,
                to_k=one.to_k,
                reason=one.reason,
            )
            for one in moved
        ],
        decisions=[
            DecisionResult(
                time=one.time.isoformat(),
                from_table=one.from_,
                to_table=one.to,
                reason=one.reason,
                message=one.message,
                expected_gain=one.expected_gain,
                measured_gain=one.measured_gain,
            )
            for one in log.decisions
        ],
        pod_restarts=log.restarts,
        requests=requests,
        conditions=conditions,
        durations=Durations(until_ready=log.ready_seconds, laps=log.laps_seconds, total=total_seconds),
        samples=_samples(log.stretches, began),
        statuses=[
            StatusSample(seconds=one.time - began, table=one.table, acceptance_rate=one.acceptance_rate)
            for one in log.observed
        ],
        acceptance=[
            AcceptanceSample(seconds=span.time - began, rate=span.accepted / span.drafted)
            for span in log.drafts
        ],
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


def _phase(phase: Phase, log: Log) -> PhaseResult:
    own = [stretch for stretch in log.stretches if stretch.phase == phase]
    driven = next(stretch for stretch in own if stretch.arm is Arm.OUTRIDER)
    tables = [one.table for one in _during(log.observed, driven) if one.table]
    drafts = [span for span in log.drafts if driven.start <= span.time <= driven.end]
    return PhaseResult(
        phase=phase.name,
        prompts=phase.kind,
        streams=phase.streams,
        seconds=driven.end - driven.start,
        outrider_whole_phase=rate(driven, since=0.0, until=1.0),
        outrider_second_half=rate(driven, since=0.5, until=1.0),
        static_zero=_throughput(own, Arm.NO_DRAFTS),
        static_largest=_throughput(own, Arm.LONGEST_DRAFTS),
        k_at_start=k_at(tables[0], phase.streams) if tables else None,
        k_at_end=k_at(tables[-1], phase.streams) if tables else None,
        acceptance_rate=acceptance_rate(drafts),
    )


def _during(observed: Sequence[Observed], stretch: Stretch) -> list[Observed]:
    return [one for one in observed if stretch.start <= one.time <= stretch.end]


def _throughput(stretches: Sequence[Stretch], arm: Arm) -> Throughput:
    slices = [slice_rate(stretch) for stretch in stretches if stretch.arm is arm]
    known = [value for value in slices if value is not None]
    return Throughput(mean=fmean(known) if known else None, slices=slices)


def _requests(stretches: Sequence[Stretch]) -> Requests:
    seconds = [second for stretch in stretches for second in stretch.seconds]
    return Requests(
        finished=sum(second.requests for second in seconds),
        failed=sum(second.failed for second in seconds),
        errors=sorted({error for second in seconds for error in second.errors}),
    )


def _samples(stretches: Sequence[Stretch], began: float) -> list[Sample]:
    return [
        Sample(
            seconds=second.time - began,
            covered_seconds=second.seconds,
            arm=stretch.arm,
            lap=stretch.lap,
            phase=stretch.phase.name,
            streams=stretch.phase.streams,
            tokens=second.tokens,
        )
        for stretch in stretches
        for second in stretch.seconds
    ]
