"""Every reason of a decision is really given by the law."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import pytest

from outrider.api.reasons import DecisionReason
from outrider.tuning.decision import Decision
from outrider.tuning.state import Ledger
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from tests.unit.tuning import guarded
from tests.unit.tuning.factories import (
    POLICY,
    Engine,
    a_cell,
    a_map,
    a_policy,
    a_start,
    an_exact_window,
    run,
    with_parts,
)
from tests.unit.tuning.golden import TICK, TRACES, Part
from tests.unit.tuning.histories import PROSE, a_pinned, a_settled


def traced(parts: Iterable[Part]) -> Iterable[Decision]:
    state, at = a_start(3), 0.0
    for part in parts:
        for decision in run(state, *part.engines, ticks=part.ticks, at=at, seconds=TICK):
            state = decision.state
            yield decision
        at += part.ticks * TICK


def worse_than_before() -> Decision:
    state, index = a_settled(32.0).state, POLICY.bin_of(32.0)
    changed = replace(state.bins[index].changed_to(5, 100.0, settled=True), replaced=1)
    return run(state.with_bin(index, changed).composed(POLICY), Engine(32.0), ticks=1, at=100.0)[0]


def within_limit() -> Decision:
    """Steps of K 5 are longer than allowed, and those of K 0 are not."""
    settled = a_settled(8.0, k=5)
    limits = (limit / 1000 for limit in range(1, 60))
    policies = (a_policy(inter_token_latency_limit=limit) for limit in limits)
    ticks = (run(settled.state, Engine(8.0), ticks=1, at=200.0, policy=policy)[0] for policy in policies)
    return next(decision for decision in ticks if decision.reason is DecisionReason.LATENCY_LIMIT_EXCEEDED)


def not_told_apart(reason: DecisionReason) -> Decision:
    """By the map K 3 is as good as K 1, and there was no time for slices."""
    step_times = a_map(error=0.04, off=lambda _, k: 0.97 if k == 3 else 1.0)
    policy = a_policy(calibration_seconds=0.0)
    ticks = run(a_start(1), Engine(8.0), ticks=8, policy=policy, step_times=step_times)
    return next(decision for decision in ticks if decision.reason is reason)


def smaller_k() -> Decision:
    """Code turns into prose."""
    code = run(a_start(), Engine(1.0, acceptance=0.8), ticks=24)[-1].state
    return run(code, Engine(1.0, table=PROSE, acceptance=0.5), ticks=2, at=120.0)[-1]


def drafts_fail() -> Decision:
    """2 % of first drafts are accepted, for the second tick, where it was 60 %."""
    state = guarded.after_a_bad_tick(a_start(3), history=0.6)
    return guarded.Tick(state, guarded.seen(Engine(8.0, acceptance=0.02), state)).decide()


SCENES: Mapping[DecisionReason, Callable[[], Decision]] = {
    DecisionReason.NO_DRAFTER: lambda: decide(
        TickContext([], a_start(), policy=POLICY, now=5.0, without_drafter=[an_exact_window(a_cell(k=0))])
    ),
    DecisionReason.STATIC_FALLBACK: lambda: run(
        with_parts(a_settled(8.0, k=3).state, ledger=Ledger(gain=-0.05, weight=0.6)),
        Engine(8.0),
        ticks=1,
        at=100.0,
    )[0],
    DecisionReason.STATIC_FALLBACK_ENDED: lambda: run(a_pinned(until=100.0), Engine(32.0), ticks=1, at=100.0)[
        0
    ],
    DecisionReason.LATENCY_LIMIT_EXCEEDED: within_limit,
    DecisionReason.MOST_INFORMATIVE: lambda: not_told_apart(DecisionReason.MOST_INFORMATIVE),
    DecisionReason.PROBE: lambda: not_told_apart(DecisionReason.PROBE),
    DecisionReason.SMALLER_K: smaller_k,
    DecisionReason.DRAFTS_FAIL: drafts_fail,
    DecisionReason.WORSE_THAN_BEFORE: worse_than_before,
}
"""Of those reasons that neither a guardrail's scene nor a golden trace has."""


@pytest.fixture(scope="module")
def seen() -> frozenset[DecisionReason]:
    """In the golden traces and in the scenes of the guardrails."""
    traces = (decision.reason for parts in TRACES.values() for decision in traced(parts))
    guardrails = (guardrail() for guardrail in (*guarded.OBSERVATIONS, *guarded.STEP, *guarded.PROBING))
    held_and_free = ((scene.held.decide().reason, scene.free.decide().reason) for scene in guardrails)
    return frozenset((*traces, *(reason for pair in held_and_free for reason in pair)))


@pytest.mark.parametrize("reason", DecisionReason)
def test_it_is_given(reason: DecisionReason, seen: frozenset[DecisionReason]) -> None:
    if reason in SCENES:
        assert SCENES[reason]().reason is reason
    else:
        assert reason in seen, f"add a scene of {reason!r} to {__file__}"
