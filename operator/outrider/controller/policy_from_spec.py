"""The tuner's policy, from a spec."""

from __future__ import annotations

from outrider.api.launch import RelaunchPolicy
from outrider.api.quantity import duration_seconds
from outrider.api.spec import Spec
from outrider.api.tuning import LatencyTarget as WantedLatency
from outrider.api.tuning import Objective
from outrider.runtimes import runtime_of
from outrider.tuning.latency_targets import LatencyTarget, LatencyTargets
from outrider.tuning.policy import Policy
from outrider_protocol.methods import TRAITS

_NO_DEVIATION = 1e-3
PAUSE_WEIGHT = 0.25
"""Weight of the pause with objective Latency. Pauses twice as long must
bring 2 ^ 0.25 = 1.19 times the goodput (decision 83)."""


def require_tunable(spec: Spec) -> None:
    """Refuse a spec with live tuning that the tuner cannot work with.

    Raises:
        ValueError: the cause.
    """
    if spec.live:
        policy_from_spec(spec)
        RelaunchPolicy.of(spec)


def policy_from_spec(spec: Spec) -> Policy:
    """The policy of the tuner.

    Raises:
        ValueError: the tuner cannot work with the spec.
    """
    policy = Policy(spec.candidates(), runtime_of(spec).largest_batch(spec.engine.args))
    policy = limited(policy, latency_targets(spec))
    if spec.speculation.tuning.objective is Objective.LATENCY:
        policy = policy.changed(pause_weight=PAUSE_WEIGHT)
    if TRAITS[spec.speculation.method].searches_text:
        policy = policy.changed(min_draft_share=0.0)
    if spec.one_k:
        # K=0 is then a launch without drafter, so it has no overhead.
        return policy.changed(k0_tax=0.0, k0_tax_deviation=_NO_DEVIATION)
    # At K=0 such a drafter runs no pass: it searches the text, or the engine skips it.
    idles = TRAITS[spec.speculation.method].searches_text or runtime_of(spec).control(spec).skips_idle_drafter
    return policy.with_idle_drafter() if idles else policy


def limited(policy: Policy, targets: LatencyTargets) -> Policy:
    """The policy with the target of the pause between outputs, if there is one."""
    target = targets.inter_token
    if target is None:
        return policy
    return policy.changed(
        inter_token_latency_limit=target.limit, inter_token_latency_quantile=target.quantile
    )


def latency_targets(spec: Spec) -> LatencyTargets:
    """The latency targets of the spec."""
    slo = (spec.speculation if spec.target is None else spec.target).tuning.slo
    if slo is None:
        return LatencyTargets()
    return LatencyTargets(_target(slo.inter_token_latency), _target(slo.time_to_first_token))


def _target(wanted: WantedLatency | None) -> LatencyTarget | None:
    return None if wanted is None else LatencyTarget(wanted.percentile, duration_seconds(wanted.limit))
