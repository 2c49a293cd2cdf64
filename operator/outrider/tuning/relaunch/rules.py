"""Choice of the launch configuration: without a drafter, with another schedule, with a canary. Pure.

A relaunch costs a rolling restart. So it needs a lasting gain and a minimum interval. The tuner rolls it back
if it does not end or does not pay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import expm1

from outrider.api.launch import Launch
from outrider.api.reasons import LaunchReason
from outrider.api.schedule import Schedule
from outrider.api.speculation import Actuation, Canary, StructuralOff
from outrider.tuning.decision import Decision, Outlook, Structural
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from outrider.tuning.policy import Policy, Relaunch
from outrider.tuning.relaunch import messages
from outrider.tuning.relaunch.state import Refused, RelaunchState
from outrider.tuning.without_drafter import over_no_drafter


@dataclass(frozen=True, slots=True)
class Relaunching:
    """Relaunches that the spec allows."""

    actuation: Actuation = Actuation.LIVE
    structural_off: StructuralOff = StructuralOff.NEVER
    canary: Canary = Canary.NEVER
    interval_seconds: float = 3600.0
    """Minimum time between two rolling restarts; a roll-back is never delayed."""
    deadline_seconds: float = 1200.0
    """Time after which a relaunch that has not ended counts as failed and is rolled back."""
    one_k: bool = False
    """True: a launch has one K for all batch sizes, that of the current load."""

    @property
    def silent(self) -> bool:
        """True if the tuner neither changes nor judges the launch."""
        wishes = (self.actuation, self.structural_off, self.canary)
        return wishes == (Actuation.LIVE, StructuralOff.NEVER, Canary.NEVER)

    def paced(self, policy: Policy) -> Policy:
        """Return the policy with shorter judgement, if relaunches may follow each other quickly."""
        if self.silent:
            return policy
        interval = max(self.interval_seconds, 1.0)
        return policy.changed(
            ledger_seconds=min(policy.safety.ledger_seconds, interval),
            relaunch_dwell_seconds=min(policy.relaunch.relaunch_dwell_seconds, interval / 4),
        )

    def advising(self) -> Relaunching:
        """Return the same with recommendations only."""
        never = self.structural_off is StructuralOff.NEVER
        advice = StructuralOff.NEVER if never else StructuralOff.RECOMMEND
        return replace(self, actuation=Actuation.LIVE, structural_off=advice, canary=Canary.NEVER)


@dataclass(frozen=True, slots=True)
class Scene:
    """Input of one tick. Pods are the ready ones."""

    limits: Relaunching
    decision: Decision | None  # None: there is no decision at present
    static: Schedule  # the schedule of a launch that names none
    replicas: int  # wanted, a canary included
    ready: int  # without the canary
    as_ordered: int  # of them, those that were launched as ordered
    canaries: int
    now: float  # unix seconds

    @property
    def outlook(self) -> Outlook | None:
        """Estimates at the current load; None without measurements."""
        return None if self.decision is None else self.decision.outlook

    def table(self, launch: Launch) -> Schedule:
        """Return the schedule of engines after this launch."""
        return launch.schedule or self.static


@dataclass(frozen=True, slots=True)
class Verdict:
    """The wanted launch and its reason."""

    state: RelaunchState  # its order is the wanted one
    reason: LaunchReason | None = None  # None: nothing new can be said
    sentence: str = ""
    expected_gain: float | None = None  # relative, of the relaunch that begins
    measured_gain: float | None = None  # relative, of the last relaunch, once


@dataclass(frozen=True, slots=True)
class _Wish:
    """A launch that looks better than the one that runs."""

    launch: Launch
    reason: LaunchReason  # while it only waits to prove steady
    sentence: str
    gain: float  # log, expected
    wait: float  # seconds since the last relaunch


_Rule = Callable[[Scene, RelaunchState, Policy], Verdict | None]


def judge(scene: Scene, state: RelaunchState, policy: Policy) -> Verdict:
    """Return one tick's verdict; the first rule with a result applies."""
    state = state.seen(
        complete=scene.ready >= scene.replicas - state.order.canary and scene.as_ordered == scene.ready,
        canary=scene.canaries > 0,
        now=scene.now,
    )
    gain = _measured_gain(scene, state)
    if gain is not None:
        state = replace(state, gain_told=True)
    rules: tuple[_Rule, ...] = (_late, _under_way, _canary_runs, _slower, _better, _canary_starts, _rests)
    verdict = next((found for rule in rules if (found := rule(scene, state, policy))), Verdict(state))
    return replace(verdict, measured_gain=gain)


def _late(scene: Scene, state: RelaunchState, policy: Policy) -> Verdict | None:
    """Roll back a relaunch that does not end, unless it is a roll-back itself."""
    if not state.under_way or state.taken_back or state.started_at is None:
        return None
    if scene.now - state.started_at <= scene.limits.deadline_seconds:
        return None
    failed = state.order.launch
    sentence = messages.late(failed, scene.limits.deadline_seconds, scene.as_ordered, scene.replicas)
    state = replace(state, strikes=state.strikes + 1)
    until = scene.now + _back_off(scene, state, policy.relaunch)
    return Verdict(
        state.back(Refused(str(failed), until), sentence, scene.now),
        LaunchReason.RELAUNCH_ROLLED_BACK,
        sentence,
    )


def _under_way(scene: Scene, state: RelaunchState, _: Policy) -> Verdict | None:
    if not state.under_way:
        return None
    done = messages.under_way(state.order.launch, scene.as_ordered, scene.replicas)
    if state.taken_back:
        return Verdict(state, LaunchReason.RELAUNCH_ROLLED_BACK, state.taken_back)
    return Verdict(state, LaunchReason.RELAUNCHING, done)


def _canary_runs(scene: Scene, state: RelaunchState, policy: Policy) -> Verdict | None:
    if not state.order.canary or state.canary_at is None:
        return None
    tax = scene.outlook.tax if scene.outlook is not None else None
    heard = tax is not None and tax.measured_at is not None and tax.measured_at >= state.canary_at
    known = heard and tax is not None and tax.deviation <= policy.relaunch.canary_deviation
    begun = state.canary_ready_at
    late = begun is None and scene.now - state.canary_at > scene.limits.deadline_seconds
    over = begun is not None and scene.now - begun >= policy.relaunch.canary_seconds
    if known or late or over or scene.limits.canary is Canary.NEVER:
        ended = replace(state, order=replace(state.order, canary=False), canary_ready_at=None)
        found = messages.canary_ends(_told(tax if heard else None, late=late))
        return Verdict(ended, LaunchReason.NO_BETTER_LAUNCH, found)
    sentence = messages.CANARY_STARTS if begun is None else messages.CANARY_RUNS
    return Verdict(state, LaunchReason.CANARY_RUNNING, sentence)


def _told(tax: IdleDrafterOverhead | None, *, late: bool) -> str:
    """Describe the canary's result. `tax`: as the canary measured it; None without a measurement."""
    if late:
        return messages.CANARY_DID_NOT_START
    return messages.CANARY_TOLD_NOTHING if tax is None else messages.tax_costs(tax)


def _slower(scene: Scene, state: RelaunchState, policy: Policy) -> Verdict | None:
    """Roll back immediately a schedule that is slower than the one before."""
    pair = _table_pair(scene, state)
    outlook = scene.outlook
    if pair is None or outlook is None or state.taken_back or state.done_at is None:
        return None
    if scene.now - state.done_at > scene.limits.interval_seconds:
        return None
    k, old = pair
    loss, error = outlook.belief.gain(old, k)
    if loss <= max(policy.choice.rollback_loss, error):
        return None
    sentence = messages.slower(k, old, loss, error, outlook.belief.batch_size)
    until = scene.now + policy.relaunch.refused_intervals * scene.limits.interval_seconds
    refused = Refused(str(state.order.launch), until)
    return Verdict(
        state.back(refused, sentence, scene.now),
        LaunchReason.RELAUNCH_ROLLED_BACK,
        sentence,
        expected_gain=expm1(loss),
    )


def _better(scene: Scene, state: RelaunchState, policy: Policy) -> Verdict | None:
    if scene.outlook is None or scene.as_ordered < scene.ready:
        return None
    wish = _structural(scene, scene.outlook, state, policy) or _table(scene, scene.outlook, state, policy)
    if wish is None:
        return None
    if wish.reason is LaunchReason.DRAFTER_IDLE and scene.limits.structural_off is StructuralOff.RECOMMEND:
        return Verdict(state, wish.reason, messages.advised(wish.sentence))
    state = state.wishing(str(wish.launch), scene.now)
    refused = state.refused_until(str(wish.launch))
    last = state.started_at
    earliest = max(refused, last + wish.wait if last is not None else scene.now)
    if scene.now < earliest:
        return Verdict(state, LaunchReason.RELAUNCH_POSTPONED, messages.waits(wish.sentence, earliest))
    since = scene.now if state.wished_at is None else state.wished_at
    steady = since + policy.relaunch.relaunch_dwell_seconds
    if scene.now < steady:
        return Verdict(state, wish.reason, messages.proving(wish.sentence, steady))
    state = state.relaunched(wish.launch, scene.now, within=policy.relaunch.longest_back_off_seconds)
    return Verdict(state, LaunchReason.RELAUNCHING, wish.sentence, expected_gain=expm1(wish.gain))


def _canary_starts(scene: Scene, state: RelaunchState, policy: Policy) -> Verdict | None:
    limits, outlook = scene.limits, scene.outlook
    if limits.canary is Canary.NEVER or limits.actuation is not Actuation.LIVE or outlook is None:
        return None
    if scene.replicas < 2 or scene.ready < scene.replicas or not state.order.launch.drafter:
        return None
    if 0 not in outlook.belief.candidates:
        return None  # nothing to compare with
    moments = (outlook.tax.measured_at, state.canary_at)
    if any(at is not None and scene.now - at < policy.relaunch.canary_every_seconds for at in moments):
        return None
    order = replace(state.order, canary=True)
    started = replace(state, order=order, canary_at=scene.now, canary_ready_at=None)
    return Verdict(started, LaunchReason.CANARY_RUNNING, messages.CANARY_ORDERED)


def _rests(scene: Scene, state: RelaunchState, _: Policy) -> Verdict | None:
    if scene.outlook is None:
        return None
    state = replace(state, wish=None, wished_at=None)
    if state.taken_back and any(refused.until > scene.now for refused in state.refused):
        return Verdict(state, LaunchReason.RELAUNCH_ROLLED_BACK, state.taken_back)
    return Verdict(state, LaunchReason.NO_BETTER_LAUNCH, messages.NOTHING_BETTER)


def _structural(scene: Scene, outlook: Outlook, state: RelaunchState, policy: Policy) -> _Wish | None:
    interval = scene.limits.interval_seconds
    wanted = Structural.KEEP if scene.decision is None else scene.decision.structural
    if scene.limits.structural_off is StructuralOff.NEVER:
        return None
    if wanted is Structural.OFF and state.order.launch.drafter:
        idle = messages.drafter_idle(outlook.k0_duty, policy.safety.ledger_seconds, outlook.tax)
        return _Wish(Launch(drafter=False), LaunchReason.DRAFTER_IDLE, idle, outlook.tax.mean, wait=interval)
    if wanted is Structural.ON and not state.order.launch.drafter:
        gain, error = over_no_drafter(outlook.belief, outlook.tax)
        pays = messages.drafter_would_pay(outlook.belief.batch_size, gain, error)
        back = state.before if state.before.drafter else Launch()
        wait = _back_off(scene, state, policy.relaunch)
        return _Wish(back, LaunchReason.DRAFTER_WOULD_PAY, pays, gain, wait=wait)
    return None


def _table(scene: Scene, outlook: Outlook, state: RelaunchState, policy: Policy) -> _Wish | None:
    """Propose another schedule, for engines that get it only at launch."""
    if scene.limits.actuation is not Actuation.ROLLOUT or not state.order.launch.drafter:
        return None
    if scene.decision is None:
        return None
    wanted = scene.decision.schedule.merged()
    batch = outlook.belief.batch_size
    if scene.limits.one_k:
        wanted = Schedule.constant(wanted.k_at_mean(batch))
    k, old = wanted.k_at_mean(batch), scene.table(state.order.launch).k_at_mean(batch)
    if k == old or old not in outlook.belief.candidates:
        return None
    gain, error = outlook.belief.gain(k, old)
    sigmas = policy.relaunch.rollout_sigmas if k in outlook.measured else policy.choice.untried_sigmas
    if gain <= max(policy.relaunch.rollout_gain, sigmas * error):
        return None
    faster = messages.better_table(wanted, batch, old, k, gain, error)
    launch = Launch() if wanted == scene.static.merged() else Launch(schedule=wanted)
    wait = _back_off(scene, state, policy.relaunch)
    return _Wish(launch, LaunchReason.RELAUNCH_POSTPONED, faster, gain, wait=wait)


def _measured_gain(scene: Scene, state: RelaunchState) -> float | None:
    """Return the gain of the last relaunch over the launch before, at its first measurement."""
    outlook = scene.outlook
    if outlook is None or state.gain_told or state.done_at is None or state.taken_back:
        return None
    tax, launch = outlook.tax, state.order.launch
    if not launch.drafter and state.before.drafter:
        heard = tax.measured_at is not None and tax.measured_at > state.done_at
        return expm1(tax.mean) if heard else None
    pair = _table_pair(scene, state)
    return None if pair is None else expm1(outlook.belief.gain(*pair)[0])


def _table_pair(scene: Scene, state: RelaunchState) -> tuple[int, int] | None:
    """Return K at the current load by the last relaunch's schedule and by the one before, if measured."""
    outlook, now, before = scene.outlook, state.order.launch, state.before
    if outlook is None or state.done_at is None or not (now.drafter and before.drafter) or now == before:
        return None
    batch = outlook.belief.batch_size
    k, old = scene.table(now).k_at_mean(batch), scene.table(before).k_at_mean(batch)
    measured = outlook.measured
    if k == old or measured.get(k, float("-inf")) <= state.done_at or old not in measured:
        return None
    return k, old


def _back_off(scene: Scene, state: RelaunchState, relaunch: Relaunch) -> float:
    """Return the wait after a relaunch in seconds, doubled for each one without a gain."""
    interval = scene.limits.interval_seconds
    return max(interval, min(interval * 2.0 ** min(state.strikes, 32), relaunch.longest_back_off_seconds))
