"""One scene per guardrail: what the law would do, and the one thing that keeps it from doing so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from outrider.api.reasons import DecisionReason
from outrider.tuning.decision import Decision
from outrider.tuning.observe.window import Gap, GapReason, Observation, Window
from outrider.tuning.policy import Policy
from outrider.tuning.state import BinState, TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.tuner import decide
from tests.unit.tuning.factories import (
    Engine,
    a_cell,
    a_policy,
    a_start,
    a_window,
    an_exact_window,
    run,
    with_parts,
)

NOW = 1000.0


@dataclass(frozen=True)
class Tick:
    """All inputs of one tick of the tuner."""

    state: TunerState
    seen: Sequence[Observation]
    policy: Policy = field(default_factory=a_policy)

    def decide(self) -> Decision:
        return decide(TickContext(self.seen, self.state, policy=self.policy, now=NOW))


@dataclass(frozen=True)
class Scene:
    """The same tick twice: with what the guardrail is there for, and without."""

    reason: DecisionReason
    held: Tick
    free: Tick


@cache
def settled(*, batch: float, acceptance: float = 0.6) -> TunerState:
    """All K measured long enough, a tick before `NOW`."""
    return run(a_start(5), Engine(batch, acceptance=acceptance), ticks=40, at=NOW - 205.0)[-1].state


def with_k(k: int, *, batch: float, acceptance: float = 0.6, **changes: float) -> TunerState:
    """`settled`, but with another K than the best in force; since long ago, if nothing else is said."""
    chosen = replace(BinState(k, decided=True, visited=True, settled_at=0.0), **changes)  # type: ignore[arg-type]
    state = settled(batch=batch, acceptance=acceptance)
    return state.with_bin(a_policy().bin_of(batch), chosen).composed(a_policy())


def seen(engine: Engine, state: TunerState, **changes: float) -> tuple[Window]:
    """The newest window of an engine that runs the table of `state`."""
    return (replace(engine.window(None, state, seconds=5.0, at=NOW), **changes),)  # type: ignore[arg-type]


def after_a_bad_tick(state: TunerState, *, history: float) -> TunerState:
    """Acceptance was far below its history at the tick before, too."""
    return with_parts(state, first_drafted=1e6, first_accepted=1e6 * history, collapsed=1)


def gap() -> Scene:
    """One of two pods is not measured."""
    good, silent = an_exact_window(a_cell(), at=NOW), Gap("default/b", GapReason.STALE, "91 s old")
    return Scene(
        DecisionReason.METRICS_GAP,
        held=Tick(a_start(3), (good, silent)),
        free=Tick(a_start(3), (good,)),
    )


def mixed_window() -> Scene:
    """The load rose from 2 to 30 inside the window."""
    mixed = a_window(ended_at=NOW, batch_low=2.0, batch_high=30.0)
    return Scene(
        DecisionReason.MIXED_WINDOW,
        held=Tick(a_start(3), (mixed,)),
        free=Tick(a_start(3), (an_exact_window(a_cell(), at=NOW),)),
    )


def no_traffic() -> Scene:
    """No engine made a step."""
    idle = replace(a_window(ended_at=NOW), engine_steps=0.0, request_steps=0.0, decode_seconds=0.0)
    return Scene(
        DecisionReason.NO_TRAFFIC,
        held=Tick(a_start(3), (idle,)),
        free=Tick(a_start(3), (an_exact_window(a_cell(), at=NOW),)),
    )


def acceptance_collapse() -> Scene:
    """15 % of first drafts are accepted, for the second tick, where it was 60 %."""
    state = with_k(1, batch=1.0, acceptance=0.15)
    window = seen(Engine(1.0, acceptance=0.15), state)
    return Scene(
        DecisionReason.ACCEPTANCE_COLLAPSED,
        held=Tick(after_a_bad_tick(state, history=0.6), window),
        free=Tick(after_a_bad_tick(state, history=0.2), window),
    )


def acceptance_floor() -> Scene:
    """5 % of first drafts are accepted, and the floor is 10 %."""
    state = with_k(1, batch=1.0, acceptance=0.05)
    window = seen(Engine(1.0, acceptance=0.05), state)
    return Scene(
        DecisionReason.ACCEPTANCE_LOW,
        held=Tick(state, window),
        free=Tick(state, window, a_policy(acceptance_floor=0.04)),
    )


def kv_pressure() -> Scene:
    """The KV cache is 97 % full, and a larger K is better."""
    state = with_k(0, batch=32.0)
    return Scene(
        DecisionReason.KV_PRESSURE,
        held=Tick(state, seen(Engine(32.0), state, kv_usage_ratio=0.97)),
        free=Tick(state, seen(Engine(32.0), state, kv_usage_ratio=0.94)),
    )


def dwell() -> Scene:
    """K was chosen 5 s ago."""
    window = seen(Engine(32.0), with_k(0, batch=32.0))
    return Scene(
        DecisionReason.RECENT_CHANGE,
        held=Tick(with_k(0, batch=32.0, settled_at=NOW - 5.0), window),
        free=Tick(with_k(0, batch=32.0, settled_at=NOW - 20.0), window),
    )


def rate_limit() -> Scene:
    """K changed six times within minutes."""
    window = seen(Engine(32.0), with_k(0, batch=32.0))
    return Scene(
        DecisionReason.RATE_LIMITED,
        held=Tick(with_k(0, batch=32.0, changed_at=NOW - 60.0, switches=6.0), window),
        free=Tick(with_k(0, batch=32.0, changed_at=NOW - 60.0, switches=5.0), window),
    )


def queue() -> Scene:
    """One request waits."""
    return Scene(
        DecisionReason.REQUESTS_QUEUED,
        held=Tick(a_start(3), seen(Engine(8.0), a_start(3), requests_waiting=1.0)),
        free=Tick(a_start(3), seen(Engine(8.0), a_start(3), requests_waiting=0.0)),
    )


def kv_full() -> Scene:
    """The KV cache is 97 % full, and other K are unknown."""
    return Scene(
        DecisionReason.KV_PRESSURE,
        held=Tick(a_start(3), seen(Engine(8.0), a_start(3), kv_usage_ratio=0.97)),
        free=Tick(a_start(3), seen(Engine(8.0), a_start(3), kv_usage_ratio=0.94)),
    )


def latency_slack() -> Scene:
    """A step takes 15 ms, and 10 ms are allowed."""
    window = seen(Engine(8.0), a_start(0))
    return Scene(
        DecisionReason.LATENCY_LIMIT_REACHED,
        held=Tick(a_start(0), window, a_policy(inter_token_latency_limit=0.010)),
        free=Tick(a_start(0), window, a_policy(inter_token_latency_limit=0.100)),
    )


def collapse() -> Scene:
    """15 % of first drafts are accepted, for the second tick, where it was 60 %; larger K are unknown."""
    policy, start = replace(a_policy(), candidates=(1, 2, 3)), replace(a_start(1), candidates=(1, 2, 3))
    window = seen(Engine(8.0, acceptance=0.15), start)
    return Scene(
        DecisionReason.ACCEPTANCE_COLLAPSED,
        held=Tick(after_a_bad_tick(start, history=0.6), window, policy),
        free=Tick(after_a_bad_tick(start, history=0.2), window, policy),
    )


def uncounted_steps() -> Scene:
    """The engines count no steps by K."""
    window = seen(Engine(8.0), a_start(3))
    return Scene(
        DecisionReason.METRICS_GAP,
        held=Tick(a_start(3), (replace(window[0], cells=()),)),
        free=Tick(a_start(3), window),
    )


OBSERVATIONS: Sequence[Callable[[], Scene]] = (gap, mixed_window, no_traffic)
STEP: Sequence[Callable[[], Scene]] = (
    acceptance_collapse,
    acceptance_floor,
    kv_pressure,
    dwell,
    rate_limit,
)
PROBING: Sequence[Callable[[], Scene]] = (queue, kv_full, latency_slack, collapse, uncounted_steps)
"""Named like their guardrails, and in their order."""
