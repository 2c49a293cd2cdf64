"""The comparison of K=0 with a launch without a drafter: whether it is open, and the probes of K=0 for it.

If drafting seems to pay, K=0 hardly runs, and other probes go to a K that is nearly as good as the one in
force. So K=0 has its own budget while better knowledge of it can change the launch:

- A launch without a drafter runs beside these pods. A canary loses the gain of drafting on its traffic for as
  long as it stays. The sooner the overhead of the idle drafter is known, the less both cost together.
- Such a launch is allowed, and drafting gains about as much over K=0 as the idle drafter costs.
"""

from __future__ import annotations

from dataclasses import replace
from math import hypot, sqrt

from outrider.tuning.estimate.surface import noise_variance
from outrider.tuning.tick_context import TickContext
from outrider.tuning.without_drafter import present_gain

_OPEN_SIGMAS = 1.5
"""Standard errors beyond which more measurements of K=0 seldom change the launch."""
_LEAST_SECONDS = 1e-6


def is_open(context: TickContext) -> bool:
    """Return True while probes of K=0 can change the launch. The context has readings."""
    return _canary_waits(context) or _undecided(context)


def plan_comparison(context: TickContext, length: float, room: float) -> tuple[int, TickContext]:
    """Return the number of probes of K=0, and the context with the rest of their budget.

    An unused budget accumulates for one probe at most. Pods drift, so several probes in a row would only
    measure the same minute.

    length: of a probe, in seconds. room: seconds that probes may take until the next tick.
    """
    count, credit = 0, 0.0
    if context.bin_state.k != 0 and is_open(context):
        earned = context.policy.relaunch.canary_share * context.tick_seconds
        credit = min(context.state.budget.comparison_credit, length) + earned
        count = int(min(credit, room) / length)
    budget = replace(context.state.budget, comparison_credit=credit - count * length)
    return count, context.with_state(replace(context.state, budget=budget))


def _canary_waits(context: TickContext) -> bool:
    """Whether a launch without a drafter runs beside these, and the overhead is not known yet."""
    limit = context.policy.relaunch.canary_deviation
    return bool(context.undrafted.rows) and context.overhead.deviation > limit


def _undecided(context: TickContext) -> bool:
    """Whether the gain over K=0 is too uncertain to judge an allowed launch without a drafter.

    Some errors of that gain do not fall with more probes of K=0, such as those of acceptance and prompts. So
    the error counts at most as that of the time that K=0 has run.
    """
    policy, overhead, learning = context.policy, context.overhead, context.state.learning
    if not policy.removes_drafter or 0 not in policy.candidates:
        return False
    seconds = learning.seconds_of(context.bin, 0, context.now, policy.estimation)
    if learning.acceptance_collapsed or seconds >= policy.relaunch.k0_seconds:
        return False
    gain, error = present_gain(context)
    reducible = min(error, sqrt(noise_variance(context.noise, max(seconds, _LEAST_SECONDS))))
    loss = policy.relaunch.structural_sigmas * hypot(error, overhead.error)
    limit = overhead.mean - max(policy.relaunch.structural_gain, loss)
    return abs(gain - limit) < _OPEN_SIGMAS * reducible
