from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from examples.demo.measure import Drafts, Observed, Second, Stretch
from examples.demo.outcome import result
from examples.demo.phases import TRACE, Arm, Durations, Phase, laps
from examples.demo.prompts import Kind
from examples.demo.result import Conditions, Result
from examples.demo.run import Log
from outrider.api.status import DecisionRecord


def a_second(
    time: float, *, seconds: float = 1.0, tokens: int = 100, requests: int = 1, failed: int = 0
) -> Second:
    errors = ("boom",) * bool(failed)
    return Second(time, seconds, tokens, requests, failed, errors)


def a_stretch(
    *, tokens: tuple[int, ...] = (100,) * 20, start: float = 0.0, streams: int = 1, arm: Arm = Arm.OUTRIDER
) -> Stretch:
    """One second for each entry of `tokens`."""
    seconds = tuple(a_second(start + index, tokens=count) for index, count in enumerate(tokens, start=1))
    return Stretch(arm=arm, lap=0, phase=Phase(Kind.CODE, streams), seconds=seconds)


def observed(time: float, table: str | None) -> Observed:
    return Observed(time=time, table=table, acceptance_rate=None)


BATCH_RATES = {Arm.NO_DRAFTS: 100, Arm.LONGEST_DRAFTS: 150, Arm.OUTRIDER: 160}
"""Tokens per second of each arm in `a_log`."""


def a_log(*, failed: int = 0, restarts: int = 0) -> Log:
    """A whole run with steady rates in which K goes 3 -> 5 in every code phase and 3 -> 0 in every other."""
    log, time = Log(restarts=restarts), 1000.0
    for number, lap in enumerate(laps(Durations(outrider=30.0, static=6.0))):
        for phase in TRACE:
            counts = (BATCH_RATES[lap.arm],) * int(lap.phase_seconds)
            stretch = replace(a_stretch(tokens=counts, start=time, arm=lap.arm), phase=phase, lap=number)
            log.stretches.append(stretch)
            if lap.arm is Arm.OUTRIDER:
                chosen = "*:5" if phase.kind is Kind.CODE else "*:0"
                log.observed += [observed(time + 1, "*:3"), observed(time + 11, chosen)]
                log.decisions.append(
                    DecisionRecord(
                        time=datetime.fromtimestamp(time + 11, UTC), from_="*:3", to=chosen, reason="BetterK"
                    )
                )
                log.drafts.append(Drafts(time=time + 5, accepted=80.0, drafted=100.0))
            time = stretch.end + 1.0
    if failed:
        first = log.stretches[0]
        log.stretches[0] = replace(first, seconds=(*first.seconds[:-1], a_second(first.end, failed=failed)))
    return log


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
    )


def a_result(*, failed: int = 0, restarts: int = 0) -> Result:
    return result(a_log(failed=failed, restarts=restarts), some_conditions(), total_seconds=700.0)
