"""Choice of the launch configuration: without a drafter, with another schedule, with a canary. Pure.

A relaunch costs a rolling restart. So it needs a lasting gain and a minimum interval. The tuner rolls it back
if it does not end or does not pay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import expm1

from outrider.api.launch import ADAPTIVE, Launch
from outrider.api.reasons import LaunchReason
from outrider.api.tuning import Actuation, Canary, StructuralOff
from outrider.tuning.decision import Outlook, Structural
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from outrider.tuning.policy import Policy, Relaunch
from outrider.tuning.relaunch import messages
from outrider.tuning.relaunch.drafter_trial import on_trial, without_trial
from outrider.tuning.relaunch.inputs import RelaunchInput, Verdict, with_contrast
from outrider.tuning.relaunch.state import LaunchGain, Refused, RelaunchState
from outrider.tuning.without_drafter import hoped_gain, over_no_drafter
from outrider_protocol.schedule import Schedule


@dataclass(frozen=True, slots=True)
class _Wish:
    """A launch that looks better than the one that runs."""

    launch: Launch
    reason: LaunchReason  # while it only waits to prove steady
    sentence: str
    gain: float  # log, expected
    wait: float  # seconds since the last relaunch
    proved: bool = False  # it need not look better for longer


_Rule = Callable[[RelaunchInput, RelaunchState, Policy], Verdict | None]


def judge(inputs: RelaunchInput, state: RelaunchState, policy: Policy) -> Verdict:
    """Return one tick's verdict; the first rule with a result applies."""
    state = state.seen(
        complete=inputs.ready >= inputs.replicas - (state.order.canary is not None)
        and inputs.as_ordered == inputs.ready,
        canary=inputs.canaries > 0,
        now=inputs.now,
    )
    state = without_trial(inputs, state)
    gain = _measured_gain(inputs, state)
    if gain is not None:
        state = replace(state, gain_told=True)
    rules: tuple[_Rule, ...] = (
        on_trial,
        _unavailable,
        _late,
        _under_way,
        _canary_runs,
        _comparison_runs,
        _slower,
        _better,
        _canary_starts,
        _comparison_starts,
        _rests,
    )
    verdict = next((found for rule in rules if (found := rule(inputs, state, policy))), Verdict(state))
    return replace(verdict, measured_gain=gain)


def _unavailable(inputs: RelaunchInput, state: RelaunchState, policy: Policy) -> Verdict | None:
    """End adaptive verification immediately where an engine refuses it."""
    order = state.order
    trial = order.canary is not None and order.canary.adaptive
    if not inputs.adaptive_refusal or not (trial or order.launch.adaptive):
        return None
    sentence = messages.unavailable(inputs.adaptive_refusal)
    refused = Refused(ADAPTIVE, inputs.now + _refused_seconds(inputs, policy), sentence)
    state = state.without_adaptive(refused, inputs.now)
    return Verdict(state, LaunchReason.ADAPTIVE_UNAVAILABLE, sentence)


def _late(inputs: RelaunchInput, state: RelaunchState, policy: Policy) -> Verdict | None:
    """Roll back a relaunch that does not end, unless it is a roll-back itself."""
    if not state.under_way or state.taken_back or state.started_at is None:
        return None
    if inputs.now - state.started_at <= inputs.limits.deadline_seconds:
        return None
    failed = state.order.launch
    sentence = messages.late(failed, inputs.limits.deadline_seconds, inputs.as_ordered, inputs.replicas)
    state = replace(state, strikes=state.strikes + 1)
    until = inputs.now + _back_off(inputs, state, policy.relaunch)
    return Verdict(
        state.back(Refused(str(failed), until), sentence, inputs.now),
        LaunchReason.RELAUNCH_ROLLED_BACK,
        sentence,
    )


def _under_way(inputs: RelaunchInput, state: RelaunchState, _: Policy) -> Verdict | None:
    if not state.under_way:
        return None
    done = messages.under_way(state.order.launch, inputs.as_ordered, inputs.replicas)
    if state.taken_back:
        return Verdict(state, LaunchReason.RELAUNCH_ROLLED_BACK, state.taken_back)
    return Verdict(state, LaunchReason.RELAUNCHING, done)


def _canary_runs(inputs: RelaunchInput, state: RelaunchState, policy: Policy) -> Verdict | None:
    canary = state.order.canary
    if canary is None or canary.drafter or state.canary_at is None:
        return None
    overhead = None if inputs.outlook is None else inputs.outlook.overhead
    if overhead is not None and (overhead.measured_at is None or overhead.measured_at < state.canary_at):
        overhead = None
    known = overhead is not None and overhead.deviation <= policy.relaunch.canary_deviation
    begun = state.canary_ready_at
    late = begun is None and inputs.now - state.canary_at > inputs.limits.deadline_seconds
    over = begun is not None and inputs.now - begun >= policy.relaunch.canary_seconds
    if known or late or over or inputs.limits.canary is Canary.NEVER:
        found = messages.canary_ends(_canary_result(overhead, late=late))
        return Verdict(state.without_canary(), LaunchReason.NO_BETTER_LAUNCH, found)
    sentence = messages.CANARY_STARTS if begun is None else messages.CANARY_RUNS
    return Verdict(state, LaunchReason.CANARY_RUNNING, sentence)


def _canary_result(overhead: IdleDrafterOverhead | None, *, late: bool) -> str:
    """Describe the canary's result. `overhead`: as the canary measured it; None without a measurement."""
    if late:
        return messages.CANARY_DID_NOT_START
    return messages.CANARY_HAS_NO_RESULT if overhead is None else messages.overhead_costs(overhead)


def _comparison_runs(inputs: RelaunchInput, state: RelaunchState, policy: Policy) -> Verdict | None:
    """Measure for a fixed time, since an end by the result would make the interval too narrow."""
    canary = state.order.canary
    if canary is None or state.canary_at is None:
        return None
    begun, numbers = state.canary_ready_at, policy.relaunch
    late = begun is None and inputs.now - state.canary_at > inputs.limits.deadline_seconds
    if late or not inputs.limits.compares:
        ends = messages.canary_ends(messages.CANARY_DID_NOT_START)
        return Verdict(state.without_canary(), LaunchReason.NO_BETTER_LAUNCH, ends)
    if begun is None:
        return Verdict(state, LaunchReason.CANARY_RUNNING, messages.comparison_starts(canary))
    state = with_contrast(inputs, state, since=begun + numbers.comparison_warm_up_seconds)
    if inputs.now - begun < numbers.canary_seconds:
        return Verdict(state, LaunchReason.CANARY_RUNNING, messages.comparison_runs(canary))
    found = state.contrasts.interval()
    if found is None:
        ends = messages.canary_ends(messages.COMPARISON_HAS_NO_RESULT)
        return Verdict(state.without_canary(), LaunchReason.NO_BETTER_LAUNCH, ends)
    gain = LaunchGain(found.mean, found.low, found.high, inputs.now)
    state = replace(state.without_canary(), verification=gain)
    ends = messages.canary_ends(messages.verification_gain(gain))
    return Verdict(state, LaunchReason.NO_BETTER_LAUNCH, ends)


def _slower(inputs: RelaunchInput, state: RelaunchState, policy: Policy) -> Verdict | None:
    """Roll back immediately a schedule that is slower than the one before."""
    pair = _table_pair(inputs, state)
    outlook = inputs.outlook
    if pair is None or outlook is None or state.taken_back or state.done_at is None:
        return None
    if inputs.now - state.done_at > inputs.limits.interval_seconds:
        return None
    k, old = pair
    loss, error = outlook.posterior.gain(old, k)
    if loss <= max(policy.choice.rollback_loss, error):
        return None
    sentence = messages.slower(k, old, loss, error, outlook.posterior.batch_size)
    until = inputs.now + _refused_seconds(inputs, policy)
    refused = Refused(str(state.order.launch), until)
    return Verdict(
        state.back(refused, sentence, inputs.now),
        LaunchReason.RELAUNCH_ROLLED_BACK,
        sentence,
        expected_gain=expm1(loss),
    )


def _better(inputs: RelaunchInput, state: RelaunchState, policy: Policy) -> Verdict | None:
    if inputs.outlook is None or inputs.as_ordered < inputs.ready:
        return None
    wish = (
        _structural(inputs, inputs.outlook, state, policy)
        or _table(inputs, inputs.outlook, state, policy)
        or _verification(inputs, state, policy)
    )
    if wish is None:
        return None
    if wish.reason is LaunchReason.DRAFTER_IDLE and inputs.limits.structural_off is StructuralOff.RECOMMEND:
        return Verdict(state, wish.reason, messages.advised(wish.sentence))
    state = state.wishing(str(wish.launch), inputs.now)
    refused = state.refused_until(str(wish.launch))
    last = state.started_at
    earliest = max(refused, last + wish.wait if last is not None else inputs.now)
    if inputs.now < earliest:
        return Verdict(state, LaunchReason.RELAUNCH_POSTPONED, messages.waits(wish.sentence, earliest))
    since = inputs.now if state.wished_at is None else state.wished_at
    steady = since + policy.relaunch.relaunch_dwell_seconds
    if inputs.now < steady and not wish.proved:
        return Verdict(state, wish.reason, messages.proving(wish.sentence, steady))
    state = state.relaunched(wish.launch, inputs.now, within=policy.relaunch.longest_back_off_seconds)
    return Verdict(state, LaunchReason.RELAUNCHING, wish.sentence, expected_gain=expm1(wish.gain))


def _canary_starts(inputs: RelaunchInput, state: RelaunchState, policy: Policy) -> Verdict | None:
    limits, outlook = inputs.limits, inputs.outlook
    if limits.canary is Canary.NEVER or limits.actuation is not Actuation.LIVE or outlook is None:
        return None
    if inputs.replicas < 2 or inputs.ready < inputs.replicas or not state.order.launch.drafter:
        return None
    if 0 not in outlook.posterior.candidates:
        return None  # nothing to compare with
    moments = (outlook.overhead.measured_at, state.canary_at)
    if any(at is not None and inputs.now - at < policy.relaunch.canary_every_seconds for at in moments):
        return None
    started = state.measuring(Launch(drafter=False), inputs.now)
    return Verdict(started, LaunchReason.CANARY_RUNNING, messages.CANARY_ORDERED)


def _comparison_starts(inputs: RelaunchInput, state: RelaunchState, policy: Policy) -> Verdict | None:
    launch = state.order.launch
    if not inputs.limits.compares or inputs.outlook is None or not launch.drafter:
        return None
    if inputs.replicas < 2 or inputs.ready < inputs.replicas or state.refused_until(ADAPTIVE) > inputs.now:
        return None
    last = state.compared_at
    if last is not None and inputs.now - last < policy.relaunch.canary_every_seconds:
        return None
    canary = Launch(adaptive=not launch.adaptive)
    return Verdict(
        state.measuring(canary, inputs.now),
        LaunchReason.CANARY_RUNNING,
        messages.comparison_ordered(canary),
    )


def _rests(inputs: RelaunchInput, state: RelaunchState, _: Policy) -> Verdict | None:
    if inputs.outlook is None:
        return None
    state = replace(state, wish=None, wished_at=None)
    if refusal := state.refusal(ADAPTIVE):
        return Verdict(state, LaunchReason.ADAPTIVE_UNAVAILABLE, refusal)
    if state.taken_back and any(refused.until > inputs.now for refused in state.refused):
        return Verdict(state, LaunchReason.RELAUNCH_ROLLED_BACK, state.taken_back)
    if inputs.limits.compares and inputs.replicas < 2 and state.order.launch.drafter:
        return Verdict(state, LaunchReason.NOT_COMPARED, messages.ONE_REPLICA)
    if inputs.limits.canary is Canary.ALLOW and inputs.replicas < 2 and state.order.launch.drafter:
        return Verdict(state, LaunchReason.NOT_COMPARED, messages.ONE_REPLICA_ALONE)
    gain = state.verification if inputs.limits.compares else None
    sentence = messages.NOTHING_BETTER if gain is None else messages.kept(state.order.launch, gain)
    return Verdict(state, LaunchReason.NO_BETTER_LAUNCH, sentence)


def _structural(
    inputs: RelaunchInput, outlook: Outlook, state: RelaunchState, policy: Policy
) -> _Wish | None:
    interval = inputs.limits.interval_seconds
    wanted = outlook.structural
    if inputs.limits.structural_off is StructuralOff.NEVER:
        return None
    if wanted is Structural.OFF and state.order.launch.drafter:
        gain, seconds = -outlook.drafting, policy.safety.ledger_seconds
        lost = messages.drafting_lost(gain, outlook.drafting_error, seconds, outlook.overhead)
        return _Wish(Launch(drafter=False), LaunchReason.DRAFTER_IDLE, lost, gain, wait=interval, proved=True)
    if wanted is Structural.ON and not state.order.launch.drafter:
        gain, error = over_no_drafter(outlook.posterior, outlook.overhead)
        batch = outlook.posterior.batch_size
        pays = messages.drafter_would_pay(batch, gain, error)
        if gain <= policy.choice.min_gain:
            pays, gain = messages.drafter_may_pay(batch, gain, error), hoped_gain(gain, error)
        back = state.before if state.before.drafter else Launch()
        wait = _back_off(inputs, state, policy.relaunch)
        return _Wish(back, LaunchReason.DRAFTER_WOULD_PAY, pays, gain, wait=wait)
    return None


def _verification(inputs: RelaunchInput, state: RelaunchState, policy: Policy) -> _Wish | None:
    """Propose the other verification after a comparison that favours it."""
    gain, launch = state.verification, state.order.launch
    if gain is None or not inputs.limits.compares or not launch.drafter:
        return None
    if inputs.now - gain.measured_at >= policy.relaunch.canary_every_seconds:
        return None
    other = Launch(adaptive=not launch.adaptive)
    refused = other.adaptive and state.refusal(ADAPTIVE)
    if refused or not gain.favours(first=other.adaptive, min_gain=policy.relaunch.verification_gain):
        return None
    return _Wish(
        other,
        LaunchReason.RELAUNCH_POSTPONED,
        messages.other_verification(other, gain),
        abs(gain.mean),
        wait=inputs.limits.interval_seconds,
        proved=True,
    )


def _table(inputs: RelaunchInput, outlook: Outlook, state: RelaunchState, policy: Policy) -> _Wish | None:
    """Propose another schedule, for engines that get it only at launch."""
    if inputs.limits.actuation is not Actuation.ROLLOUT or not state.order.launch.drafter:
        return None
    if inputs.decision is None:
        return None
    wanted = inputs.decision.schedule.merged()
    batch = outlook.posterior.batch_size
    if inputs.limits.one_k:
        wanted = Schedule.constant(wanted.k_at_mean(batch))
    k, old = wanted.k_at_mean(batch), inputs.table(state.order.launch).k_at_mean(batch)
    if k == old or old not in outlook.posterior.candidates:
        return None
    gain, error = outlook.posterior.gain(k, old)
    sigmas = policy.relaunch.rollout_sigmas if k in outlook.measured else policy.choice.untried_sigmas
    if gain <= max(policy.relaunch.rollout_gain, sigmas * error):
        return None
    faster = messages.better_table(wanted, batch, old, k, gain, error)
    launch = Launch() if wanted == inputs.static.merged() else Launch(schedule=wanted)
    wait = _back_off(inputs, state, policy.relaunch)
    return _Wish(launch, LaunchReason.RELAUNCH_POSTPONED, faster, gain, wait=wait)


def _measured_gain(inputs: RelaunchInput, state: RelaunchState) -> float | None:
    """Return the gain of the last relaunch over the launch before, at its first measurement."""
    outlook = inputs.outlook
    if outlook is None or state.gain_told or state.done_at is None or state.taken_back:
        return None
    overhead, launch = outlook.overhead, state.order.launch
    if not launch.drafter and state.before.drafter:
        measured = overhead.measured_at is not None and overhead.measured_at > state.done_at
        return expm1(overhead.mean) if measured else None
    pair = _table_pair(inputs, state)
    return None if pair is None else expm1(outlook.posterior.goodput_gain(*pair)[0])


def _table_pair(inputs: RelaunchInput, state: RelaunchState) -> tuple[int, int] | None:
    """Return K at the current load by the last relaunch's schedule and by the one before, if measured."""
    outlook, now, before = inputs.outlook, state.order.launch, state.before
    if outlook is None or state.done_at is None or not (now.drafter and before.drafter) or now == before:
        return None
    batch = outlook.posterior.batch_size
    k, old = inputs.table(now).k_at_mean(batch), inputs.table(before).k_at_mean(batch)
    measured = outlook.measured
    if k == old or measured.get(k, float("-inf")) <= state.done_at or old not in measured:
        return None
    return k, old


def _refused_seconds(inputs: RelaunchInput, policy: Policy) -> float:
    return policy.relaunch.refused_intervals * inputs.limits.interval_seconds


def _back_off(inputs: RelaunchInput, state: RelaunchState, relaunch: Relaunch) -> float:
    """Return the wait after a relaunch in seconds, doubled for each one without a gain."""
    interval = inputs.limits.interval_seconds
    return max(interval, min(interval * 2.0 ** min(state.strikes, 32), relaunch.longest_back_off_seconds))
