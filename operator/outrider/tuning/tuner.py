"""One tick of the tuner: measurements and state in, the wanted schedule and perhaps a probe out. Pure.

The tuner learns step times and acceptance from the measurements. Both give a goodput with an error for every
K at every batch size. The current batch bin gets the K that is best beyond doubt, and the other bins follow.
A probe of another K runs if knowing it better is worth more than the probe costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from outrider.tuning.choose import choice, guardrails, switching
from outrider.tuning.decision import Decision, Kind, Proposal
from outrider.tuning.estimate import goodput, latency, learning
from outrider.tuning.explore import probing
from outrider.tuning.observe.readings import read
from outrider.tuning.observe.window import Observation, Window
from outrider.tuning.report import report
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext
from outrider.tuning.without_drafter import judge_drafter
from outrider_protocol.schedule import Schedule

_MAX_INTERVAL = 60.0
"""Seconds. After a longer pause the next tick is assumed to come after this long, unless the caller knows."""
_FIRST_INTERVAL = 10.0


def decide(context: TickContext) -> Decision:
    """Decide one tick: the first stage with an answer ends it. Bad measurements never raise; they hold."""
    before = context.state.schedule
    for stage in STAGES:
        answer = stage(context)
        if isinstance(answer, Decision):
            return answer
        if isinstance(answer, Proposal):
            return report(answer, context, before)
        context = answer
    raise AssertionError("the last stage always proposes something")


def observe(context: TickContext) -> TickContext:
    """Order the observations, since the rounding of sums depends on it, and take readings from them."""
    context = replace(
        context,
        observations=_in_order(context.observations),
        without_drafter=_in_order(context.without_drafter),
        other_launch=_in_order(context.other_launch),
        policy=context.policy if context.in_force is None else context.policy.observing(),
        tick_seconds=context.tick_seconds or _last_interval(context.state, context.now),
    )
    apart = tuple(o for o in context.without_drafter if isinstance(o, Window))
    other = tuple(o for o in context.other_launch if isinstance(o, Window))
    return replace(
        context,
        readings=read(context.windows, context.in_force or context.state.schedule, context.policy),
        undrafted=read(apart, Schedule.constant(0), context.policy),
        compared=read(other, context.state.schedule, context.policy),
    )


def check_observations(context: TickContext) -> TickContext | Proposal:
    """Hold if a guardrail finds that there is nothing to decide on."""
    veto = guardrails.first_veto(guardrails.OBSERVATIONS, context)
    return context if veto is None else Proposal(Kind.HOLD, veto.reason, veto.sentence, context.state)


STAGES: Sequence[Callable[[TickContext], TickContext | Proposal | Decision]] = (
    observe,
    learning.learn,
    learning.learn_overhead,
    judge_drafter,
    goodput.estimate,
    latency.learn_latency,
    learning.keep_ledger,
    check_observations,
    choice.follow_other_bins,
    switching.fall_back,
    switching.choose,
    probing.break_tie,
    probing.probe,
)
"""In this order; docs/reference/tuning.md explains them."""


def _in_order(observations: Sequence[Observation]) -> Sequence[Observation]:
    if len(observations) < 2:
        return observations
    return sorted(observations, key=lambda o: (o.pod, repr(o)))


def _last_interval(state: TunerState, now: float) -> float:
    """Seconds since the last tick, as an estimate of those until the next."""
    return _FIRST_INTERVAL if state.at is None else min(max(now - state.at, 0.0), _MAX_INTERVAL)
