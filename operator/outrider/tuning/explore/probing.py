"""Probes of other K in the current batch bin: how long, on which pod, and within which limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from outrider.api.reasons import DecisionReason
from outrider.tuning.choose import choice, guardrails
from outrider.tuning.decision import Kind, Probe, Proposal, Slice
from outrider.tuning.explore import probe_plan
from outrider.tuning.explore.canary import looks
from outrider.tuning.state import TunerState
from outrider.tuning.tick_context import TickContext

_SHARE = 0.9
"""Ratio of the time between two ticks that probes may use, so that they end before the next."""


def attempt(view: TickContext) -> Proposal:
    """Plan probes that are worth their cost, allowed and affordable; otherwise the bin is settled.

    Engines that do not count by batch bin and K run no probes.
    """
    veto = guardrails.first_veto(guardrails.PROBING, view)
    if veto is not None:
        return view.hold(veto.reason, veto.sentence)
    length = _slice_seconds(view)
    room = _room(view, length)
    compared = looks(view, length, room)
    view = view.with_state(compared.state)
    planned = _plan(view, length, room - compared.count * length)
    ks = compared.ks + planned.ks
    if not planned.ks:
        settled = _nothing(view, credit_left=_credit(view) >= length, saturated=planned.saturated)
        if not ks or settled.kind is Kind.EXPLOIT:
            return replace(settled, probe=_probe(view, ks, length) if ks else None)
    state = _paid(view, len(planned.ks) * length, planned.loss)
    k, calibrating = view.bin_state.k, view.bin_state.settled_at is None
    reason = DecisionReason.CALIBRATION if calibrating else DecisionReason.PROBE
    words = f"probe of K {', '.join(map(str, ks))}, {length:.1f} s each; K {k} has {view.rate(k)}"
    return Proposal(Kind.EXPLORE, reason, view.say(words), state, probe=_probe(view, ks, length))


def _nothing(view: TickContext, *, credit_left: bool, saturated: bool) -> Proposal:
    """Return True if the bin is settled; False if only the loss budget prevents probes."""
    bin_state = view.bin_state
    k = bin_state.k
    if bin_state.settled_at is not None or (credit_left and not saturated):
        return view.hold_settled()
    state = view.state.with_bin(view.bin, replace(bin_state, decided=True, settled_at=view.now))
    return Proposal(Kind.EXPLOIT, DecisionReason.CALIBRATED, view.say(f"K stays {k}, {view.rate(k)}"), state)


def _credit(view: TickContext) -> float:
    """Return the seconds that probes may take now."""
    bin_state = view.bin_state
    return bin_state.credit if bin_state.settled_at is None else view.state.probe_credit


def _room(view: TickContext, length: float) -> float:
    """Return the seconds that probes may take until the next tick.

    If a tick is shorter than a probe, one probe runs beyond the next tick. A limit on the slowest tenth of
    all gaps leaves room for one probe.
    """
    if not view.readings.exact:
        return 0.0
    if view.policy.safety.inter_token_latency_limit is not None:
        return length
    return max(_SHARE * view.interval, length)


def terms(view: TickContext, seconds: float) -> probe_plan.Terms:
    """Return the conditions under which a probe of this length is worth its cost."""
    policy, pods = view.policy, _sharing_pods(view)
    safety = policy.safety
    return probe_plan.Terms(
        seconds=seconds,
        horizon=policy.exploration.horizon_seconds * pods,
        noise=view.state.noise(policy.estimation),
        loss_sigmas=safety.loss_sigmas,
        untouched_loss=0.9 * _budget(view),
        safe_loss=safety.safe_loss,
        safe_sigmas=safety.safe_sigmas,
    )


def _budget(view: TickContext) -> float:
    """Return the allowed cost of probes in `loss_seconds`, in seconds of the smallest K's goodput."""
    safety = view.policy.safety
    return safety.loss_budget * safety.loss_seconds * _sharing_pods(view)


def _plan(view: TickContext, length: float, room: float) -> probe_plan.Plan:
    seconds = min(_credit(view), room)
    loss = _budget(view) - view.state.loss * _sharing_pods(view)
    among = choice.worth_trying(view.belief, view.policy)
    return probe_plan.plan(
        view.belief, view.bin_state.k, among, terms(view, length), seconds=seconds, loss=loss
    )


def _paid(view: TickContext, seconds: float, loss: float) -> TunerState:
    """Subtract time and cost of the probes when they are requested."""
    bin_state = view.bin_state
    state = replace(view.state, loss=view.state.loss + loss / _sharing_pods(view))
    if bin_state.settled_at is None:
        return state.with_bin(view.bin, replace(bin_state, credit=max(0.0, bin_state.credit - seconds)))
    return replace(state, probe_credit=max(0.0, state.probe_credit - seconds))


def _sharing_pods(view: TickContext) -> int:
    """Return the number of pods that gain from a probe."""
    return len(view.readings.pods(view.bin))


def _slice_seconds(view: TickContext) -> float:
    """Return the length of a probe: some steps of the slowest K."""
    exploration = view.policy.exploration
    slowest = max(view.belief.step_seconds(k) for k in view.policy.candidates)
    wanted = min(exploration.slice_steps * slowest, exploration.longest_slice_seconds)
    return max(exploration.slice_seconds, wanted)


def _probe(view: TickContext, ks: Sequence[int], seconds: float) -> Probe:
    """Choose one pod of the bin, another one at each tick."""
    pods = view.readings.pods(view.bin)
    low, high = view.policy.limits(view.bin)
    return Probe(pods[view.state.ticks % len(pods)], low, high, tuple(Slice(k, seconds) for k in ks))
