"""States of the law after hours of tuning."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from hypothesis import strategies as st

from outrider.tuning.decision import Decision
from outrider.tuning.observe.window import Gap, GapReason, Observation, Window
from outrider.tuning.policy import Policy
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from outrider_protocol.schedule import Row, Schedule
from tests.unit.tuning.factories import (
    CODE,
    POLICY,
    Engine,
    a_cell,
    a_start,
    a_window,
    an_exact_window,
    run,
    with_parts,
)

TICK = 5.0
PROSE = {
    b: tuple(g * x for g, x in zip(row, (1, 0.8, 0.62, 0.55, 0.4), strict=True)) for b, row in CODE.items()
}


def tick(state: TunerState, *observations: Observation, at: float, policy: Policy = POLICY) -> Decision:
    return decide(TickContext(observations, state, policy=policy, now=at))


@cache
def a_settled(batch: float = 8.0, *, k: int = 3, ticks: int = 20) -> Decision:
    return run(a_start(k), Engine(batch), ticks=ticks)[-1]


def chosen(decision: Decision, batch: float = 8.0) -> int:
    return decision.schedule.k_at(batch)


def windows(pod: str) -> st.SearchStrategy[Window]:
    stock = st.builds(
        a_window,
        pod=st.just(pod),
        batch=st.floats(1, 64),
        k=st.sampled_from((0.0, 1.0, 2.0, 3.0, 4.0, 5.0)),
        goodput=st.floats(1, 2000),
        seconds=st.floats(0.1, 20),
        acceptance=st.floats(0, 1),
        waiting=st.sampled_from((0.0, 3.0)),
        kv_usage=st.floats(0, 1),
    )
    cell = st.builds(
        a_cell,
        batch=st.floats(1, 64),
        k=st.sampled_from((0, 1, 2, 3, 5)),
        goodput=st.floats(1, 2000),
        seconds=st.floats(0.1, 20),
        acceptance=st.floats(0, 1),
        context=st.floats(1, 1e5),
        prefill=st.floats(0, 4096),
    )
    exact = st.builds(lambda cells: an_exact_window(*cells, pod=pod), st.lists(cell, min_size=1, max_size=4))
    return st.one_of(stock, exact)


def observations() -> st.SearchStrategy[list[Observation]]:
    gap = st.builds(Gap, pod=st.just("default/a"), reason=st.sampled_from(GapReason))
    pods = [st.one_of(windows(f"default/{name}"), windows(f"default/{name}"), gap) for name in "abc"]
    return st.lists(st.one_of(*pods), max_size=3, unique_by=lambda o: o.pod)


STATICS = st.sampled_from(
    (
        Schedule.constant(3),
        Schedule((Row(8, 3), Row(32, 1), Row(None, 0))),
        Schedule((Row(5, 0), Row(None, 5))),
    )
)
HISTORIES = st.lists(observations(), max_size=20)


def after(history: Sequence[Sequence[Observation]], start: TunerState | None = None) -> list[Decision]:
    state, decisions = start or a_start(), []
    for i, seen in enumerate(history):
        decisions.append(tick(state, *seen, at=TICK * (i + 1)))
        state = decisions[-1].state
    return decisions


def a_pinned(*, until: float) -> TunerState:
    learnt = run(a_start(5), Engine(32.0), ticks=20)[-1].state
    return with_parts(learnt, until=until).composed(POLICY)
