"""The tuner's policy, from a spec."""

from __future__ import annotations

from outrider.api.launch import RelaunchPolicy
from outrider.api.spec import Spec
from outrider.runtimes import runtime_of
from outrider.tuning.policy import Policy
from outrider_protocol.methods import TRAITS

_NO_DEVIATION = 1e-3


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
    if TRAITS[spec.speculation.method].searches_text:
        policy = policy.changed(min_draft_share=0.0)
    if spec.one_k:
        # K=0 is then a launch without drafter, so it has no overhead.
        return policy.changed(k0_tax=0.0, k0_tax_deviation=_NO_DEVIATION)
    # At K=0 such a drafter runs no pass: it searches the text, or the engine skips it.
    idles = TRAITS[spec.speculation.method].searches_text or runtime_of(spec).control(spec).skips_idle_drafter
    return policy.with_idle_drafter() if idles else policy
