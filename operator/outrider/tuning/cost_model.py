"""The cost model that engines choose K by: step times by batch size, K and context, and the largest K.

The engine knows its texts within a second or so, and the operator knows what steps cost. So the operator
pushes this beside the schedule. The engine runs the allowed K of most expected tokens per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log2

import numpy as np

from outrider.tuning.choose import choice
from outrider.tuning.decision import Decision
from outrider.tuning.estimate.features import Array
from outrider.tuning.estimate.goodput import mean_log_context, predicted_steps
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
    """The known step times in the form that engines need; None while the error at the current batch is large.

    context: a tick, with the state that it remembers. The launch (`revision`) is not known here.
    """
    policy = context.policy
    if context.state.fallback.active or len(policy.candidates) < 2 or not context.readings.exact:
        return None
    length = _context_length(context)
    batches = _batch_sizes(policy.max_num_seqs)
    seconds, errors = _predicted(context, batches, length)
    slopes = _slopes(context, length)
    near = min(range(len(batches)), key=lambda row: abs(log2(batches[row] / context.posterior.batch_size)))
    if float(errors[near].max()) > _MAX_ERROR:
        return None
    return CostModel(
        revision="",
        candidates=policy.candidates,
        batch_sizes=batches,
        step_seconds=tuple(tuple(float(f"{x:.4g}") for x in row) for row in seconds),
        errors=tuple(tuple(float(f"{max(x, 1e-4):.2g}") for x in row) for row in errors),
        context_tokens=length,
        context_slopes=tuple(float(f"{x:.3g}") for x in slopes),
        limits=_limits(context),
        pause_weight=policy.choice.pause_weight,
    )


def next_cost_model(last: CostModel | None, decision: Decision) -> CostModel | None:
    """What to push after a tick: the last one unless engines would choose other K by a newer one.

    While nothing is measured the last one holds, since step times change slowly.
    """
    if decision.state.fallback.active:
        return None
    if decision.outlook is None:
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


def _context_length(context: TickContext) -> float:
    """Current tokens per request, rounded to half an octave, so that it does not move with every tick."""
    mean = mean_log_context(context.readings.of(context.bin))
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


def _slopes(context: TickContext, length: float) -> tuple[float, ...]:
    """Seconds by which a step of each candidate grows per token in the KV cache, at the current batch."""
    ks, batch = context.policy.candidates, context.posterior.batch_size
    points = [Point(k, log2(batch), log2(tokens)) for tokens in (length, 2 * length) for k in ks]
    means = predicted_steps(context, points).means
    return tuple(
        max(0.0, exp(far) - exp(near)) / (batch * length)
        for near, far in zip(means[: len(ks)], means[len(ks) :], strict=True)
    )


def _limits(context: TickContext) -> Schedule:
    """The largest K by batch bin.

    Where engines never were and no trusted profile reaches, the static schedule bounds the first burst
    (decision 23). While the KV cache is full, or no pod says how full, K does not rise over the schedule.
    """
    policy, state, usage = context.policy, context.state, context.kv_usage_ratio
    full = usage is None or usage >= policy.safety.kv_usage_limit
    rows: list[Row] = []
    for index in range(len(policy.bins)):
        _, high = policy.limits(index)
        posterior = context.posteriors[index]
        known = state.bins.get(index, NO_CHOICE).visited or posterior.foretold
        usable = max(choice.usable(posterior, policy))
        most = usable if known else min(usable, room(state.static, index, policy))
        if full:
            most = min(most, state.schedule.k_at(policy.bins[index]))
        rows.append(Row(high, most))
    return Schedule(tuple(rows)).merged()
