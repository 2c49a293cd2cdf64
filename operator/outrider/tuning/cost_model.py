"""The cost model that engines choose K by: step times by batch size, K and context, and the largest K.

The engine knows its texts within a second or so, and the operator knows what steps cost. So the operator
pushes this beside the schedule. The engine runs the allowed K of most expected tokens per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log2, sqrt

import numpy as np

from outrider.tuning.choose import choice
from outrider.tuning.decision import Decision
from outrider.tuning.estimate.features import Array
from outrider.tuning.estimate.goodput import mean_log_context, predicted_steps
from outrider.tuning.estimate.goodput import posteriors as estimated
from outrider.tuning.estimate.surface import Point
from outrider.tuning.state import NO_CHOICE, room
from outrider.tuning.tick_context import TickContext
from outrider_protocol.cost_model import CostModel
from outrider_protocol.schedule import Row, Schedule

_CONTEXT_TOKENS = 1024.0
"""Per request, where no engine counts them."""
_MAX_ERROR = 0.15
"""Relative error of a step time, among those of one batch size, from which on the engine is not taught."""
_MATERIAL = 0.01
"""Relative. Step times of one batch size that lie closer together than this choose the same K."""
_MATERIAL_CONTEXT = 0.5
"""log2. The context of step times may be off by so much, since the engine corrects for it."""


def cost_model_of(context: TickContext) -> CostModel | None:
    """The known step times in the form that engines need; None while their error is too large.

    The error counts at the current batch size. Before one is measured it counts at all of them, since the
    first requests may bring any.

    context: a tick, with the state that it remembers. The launch (`revision`) is not known here.
    """
    policy = context.policy
    if context.state.fallback.active or context.in_force is not None or len(policy.candidates) < 2:
        return None
    if not _can_be_used(context):
        return None
    length = _context_length(context)
    batches = _batch_sizes(policy.max_num_seqs)
    seconds, errors = _predicted(context, batches, length)
    batch, used = _current(context, batches)
    if float(errors[used].max()) > _MAX_ERROR:
        return None
    return CostModel(
        revision="",
        candidates=policy.candidates,
        batch_sizes=batches,
        step_seconds=tuple(tuple(float(f"{x:.4g}") for x in row) for row in seconds),
        errors=tuple(tuple(float(f"{max(x, 1e-4):.2g}") for x in row) for row in errors),
        context_tokens=length,
        context_slopes=tuple(float(f"{x:.3g}") for x in _slopes(context, batch, length)),
        limits=_limits(context),
        pause_weight=policy.choice.pause_weight,
    )


def next_cost_model(last: CostModel | None, decision: Decision) -> CostModel | None:
    """What to push after a tick: the last one unless engines would choose other K by a newer one.

    While nothing is measured the last one holds, since step times change slowly. The first one may rest on
    the startup profile alone.
    """
    if decision.state.fallback.active:
        return None
    if decision.outlook is None and last is not None:
        return last
    found = decision.cost_model()
    if found is None or last is None:
        return found
    found = replace(found, revision=last.revision)
    return found if materially_differs(found, last) else last


def materially_differs(new: CostModel, old: CostModel | None) -> bool:
    """Whether engines would choose other K by it, so that it is worth a push."""
    if old is None or _frame(new) != _frame(old):
        return True
    if abs(log2(new.context_tokens / old.context_tokens)) > _MATERIAL_CONTEXT:
        return True
    was, now = (_apart(np.log(np.array(model.step_seconds))) for model in (old, new))
    return float(np.abs(now - was).max()) > _MATERIAL


def _frame(model: CostModel) -> tuple[object, ...]:
    return model.revision, model.candidates, model.batch_sizes, model.limits, model.pause_weight


def _apart(log_seconds: Array) -> Array:
    """Over the mean of each batch size: what all K share chooses none of them."""
    apart: Array = log_seconds - log_seconds.mean(axis=1, keepdims=True)
    return apart


def _can_be_used(context: TickContext) -> bool:
    """Whether engines count their steps by K.

    Before one is measured: whether there is a profile, and no limit that depends on measured gaps.
    """
    if context.readings.bin is None:
        return context.step_times is not None and context.policy.safety.inter_token_latency_limit is None
    return context.readings.exact


def _current(context: TickContext, batches: Sequence[int]) -> tuple[float, slice]:
    """The current batch size, and the place of the nearest of `batches`.

    Before one is measured: the middle of all, and all of them.
    """
    if context.readings.bin is None:
        return sqrt(batches[-1]), slice(None)
    now = context.posterior.batch_size
    near = min(range(len(batches)), key=lambda row: abs(log2(batches[row] / now)))
    return now, slice(near, near + 1)


def _context_length(context: TickContext) -> float:
    """Current tokens per request, rounded to half an octave, so that it does not move with every tick."""
    current = context.readings.bin
    mean = None if current is None else mean_log_context(context.readings.of(current))
    return _CONTEXT_TOKENS if mean is None else float(round(2.0 ** (round(2 * mean) / 2)))


def _batch_sizes(max_num_seqs: int) -> tuple[int, ...]:
    """Powers of two up to the largest batch, and that one."""
    powers = tuple(2**n for n in range(max_num_seqs.bit_length()) if 2**n < max_num_seqs)
    return (*powers, max_num_seqs)


def _predicted(context: TickContext, batches: Sequence[int], length: float) -> tuple[Array, Array]:
    """Step seconds and their relative errors without what all K share, [batch sizes, candidates] each."""
    ks = context.policy.candidates
    found = predicted_steps(context, [Point(k, log2(batch), log2(length)) for batch in batches for k in ks])
    shape = (len(batches), len(ks))
    centre = np.eye(len(ks)) - 1.0 / len(ks)
    errors = np.empty(shape)
    for row in range(len(batches)):
        part = slice(row * len(ks), (row + 1) * len(ks))
        errors[row] = np.sqrt(np.maximum(np.diag(centre @ found.covariance[part, part] @ centre), 0.0))
    return np.exp(found.means).reshape(shape), errors


def _slopes(context: TickContext, batch: float, length: float) -> tuple[float, ...]:
    """Seconds by which a step of each candidate grows per token in the KV cache, at this batch size."""
    ks = context.policy.candidates
    points = [Point(k, log2(batch), log2(tokens)) for tokens in (length, 2 * length) for k in ks]
    means = predicted_steps(context, points).means
    return tuple(
        max(0.0, exp(far) - exp(near)) / (batch * length)
        for near, far in zip(means[: len(ks)], means[len(ks) :], strict=True)
    )


def _limits(context: TickContext) -> Schedule:
    """The largest K by batch bin.

    Where engines never were and no trusted profile reaches, the static schedule bounds the first burst
    (decision 23). While the KV cache may be full, K does not rise over the schedule.
    """
    policy, state, full = context.policy, context.state, _may_be_full(context)
    posteriors = context.posteriors or estimated(context)
    rows: list[Row] = []
    for index in range(len(policy.bins)):
        _, high = policy.limits(index)
        posterior = posteriors[index]
        known = state.bins.get(index, NO_CHOICE).visited or posterior.foretold
        usable = max(choice.usable(posterior, policy))
        free = known or _measured_itself(context, posterior.batch_size)
        most = usable if free else min(usable, room(state.static, index, policy))
        if full:
            most = min(most, state.schedule.k_at(policy.bins[index]))
        rows.append(Row(high, most))
    return Schedule(tuple(rows)).merged()


def _measured_itself(context: TickContext, batch_size: float) -> bool:
    """Whether no step is measured yet, and the startup profile has this batch size.

    Until the first window the engine alone compares its steps with the profile, and drops what disagrees.
    """
    profile = context.step_times
    if context.state.learning.known or profile is None:
        return False
    return profile.compares and profile.covers(batch_size)


def _may_be_full(context: TickContext) -> bool:
    """Whether the KV cache is full, or no pod says how full. It is empty before the first request."""
    if not context.windows:
        return bool(context.state.learning.known)
    usage = context.kv_usage_ratio
    return usage is None or usage >= context.policy.safety.kv_usage_limit
