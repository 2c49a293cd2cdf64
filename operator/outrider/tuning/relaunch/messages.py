"""The sentences about relaunches, for conditions and Events. Gains are logarithms."""

from __future__ import annotations

from datetime import UTC, datetime
from math import expm1

from outrider.api.conditions import rfc3339
from outrider.api.launch import Launch
from outrider.api.text import shortened
from outrider.tuning.estimate.idle_drafter_overhead import IdleDrafterOverhead
from outrider.tuning.relaunch.state import LaunchGain
from outrider_protocol.schedule import Schedule

CANARY_DID_NOT_START = "it did not become ready"
CANARY_HAS_NO_RESULT = (
    "it has no result, because K=0 with the drafter or the canary was not measured well enough"
)
CANARY_ORDERED = "Outrider launches one replica without speculation, as the reference for measurements."
CANARY_STARTS = "One replica starts without speculation, as the reference for measurements."
CANARY_RUNS = "One replica runs without speculation, as the reference for measurements."
COMPARISON_HAS_NO_RESULT = "it has no result, because too few steps of both launches were measured"
ONE_REPLICA = (
    "Outrider keeps the launch, because it compares fixed with adaptive verification on two replicas, and "
    "spec.replicas is less. To compare, set spec.replicas: 2."
)
ONE_REPLICA_ALONE = (
    "Outrider starts no canary and does not compare a new drafter, because spec.replicas is less than 2. To "
    "compare, set spec.replicas: 2."
)
NOTHING_BETTER = "No better launch configuration is known."

_ADVICE = "To change it, set spec.speculation.tuning.structuralOff: Allow, or spec.speculation.method: none."


def late(launch: Launch, deadline_seconds: float, as_ordered: int, replicas: int) -> str:
    """The sentence for a relaunch that did not end."""
    return (
        f"Outrider restores the launch configuration before, because the relaunch as {_name(launch)} did not "
        f"end within {deadline_seconds:.0f} s: {as_ordered}/{replicas} pods run it."
    )


def under_way(launch: Launch, as_ordered: int, replicas: int) -> str:
    """The progress of a relaunch."""
    return f"Outrider relaunches the engines: {as_ordered}/{replicas} pods run {_name(launch)}."


def canary_ends(result: str) -> str:
    """The sentence for the end of a canary."""
    return f"The canary ends: {result}."


def comparison_ordered(canary: Launch) -> str:
    """The sentence for a canary with the other verification."""
    return f"Outrider launches one replica with {_verification(canary)} verification, to compare both."


def comparison_starts(canary: Launch) -> str:
    """The sentence until that canary is ready."""
    return f"One replica starts with {_verification(canary)} verification, to compare both."


def comparison_runs(canary: Launch) -> str:
    """The sentence while that canary is measured."""
    return f"One replica runs with {_verification(canary)} verification, to compare both."


def verification_gain(gain: LaunchGain) -> str:
    """The result of a comparison."""
    return f"adaptive verification gains {_interval(gain)}"


def kept(launch: Launch, gain: LaunchGain) -> str:
    """The sentence for a launch that a comparison did not change."""
    return f"Outrider keeps {_verification(launch)} verification: {verification_gain(gain)}."


def other_verification(launch: Launch, gain: LaunchGain) -> str:
    """The sentence for a launch that a comparison favours."""
    return f"The launch with {_verification(launch)} verification is better: {verification_gain(gain)}."


def drafter_starts(drafter: str) -> str:
    """The sentence until a canary with a new drafter is ready."""
    return f"One replica starts with the new drafter {_short(drafter)}, to be compared with the one before."


def drafter_runs(drafter: str) -> str:
    """The sentence while a new drafter is compared."""
    return f"One replica runs with the new drafter {_short(drafter)}, to be compared with the one before."


def drafter_promoted(drafter: str, gain: LaunchGain | None) -> str:
    """The sentence for a drafter that the replicas get. gain: None without a result."""
    if gain is None:
        return (
            f"Outrider gives the new drafter {_short(drafter)} to all pods without a comparison, because too "
            "few steps of both drafters were measured."
        )
    return f"Outrider gives the new drafter {_short(drafter)} to all pods: it gains {_interval(gain)}."


def drafter_kept(drafter: str, gain: LaunchGain | None) -> str:
    """The sentence for a drafter that the replicas do not get. gain: None if its pod does not serve."""
    cause = "its pod does not stay ready" if gain is None else f"it is slower: {_interval(gain)}"
    return (
        f"Outrider keeps the drafter before {_short(drafter)} in all pods, because {cause}. To give the new "
        "one to all pods nevertheless, set spec.speculation.tuning.canary: Never."
    )


def unavailable(refusal: str) -> str:
    """The sentence for engines that cannot verify adaptively. refusal: of the engine."""
    return (
        f"Outrider keeps fixed verification, because an engine refuses the adaptive one: "
        f"{shortened(refusal, 400).rstrip('. ')}. To end the comparisons, set "
        "spec.speculation.verification: Fixed."
    )


def overhead_costs(overhead: IdleDrafterOverhead) -> str:
    """The overhead of the idle drafter."""
    return f"the idle drafter costs {_percent(overhead.mean, overhead.error)} at K=0"


def slower(k: int, old: int, loss: float, error: float, batch: float) -> str:
    """The sentence for a relaunch that made engines slower."""
    return (
        f"Outrider restores the launch configuration before, because engines with K {k} are "
        f"{_percent(loss, error)} slower than with K {old} at batch {batch:.0f}."
    )


def drafting_lost(gain: float, error: float, of_seconds: float, overhead: IdleDrafterOverhead) -> str:
    """The sentence for a drafter that does not pay. gain: log, of a launch without a drafter."""
    lost = f"a launch without a drafter would have been {_percent(gain, error)} faster"
    return f"In the last {of_seconds / 60:.0f} min {lost}; {overhead_costs(overhead)}."


def drafter_would_pay(batch: float, gain: float, error: float) -> str:
    """The sentence for a launch without a drafter that would gain from one."""
    return (
        f"The engines run without a drafter; at batch {batch:.0f} drafting would gain "
        f"{100 * expm1(gain):+.0f} % ± {100 * error:.0f} %."
    )


def drafter_may_pay(batch: float, gain: float, error: float) -> str:
    """The sentence for a launch without a drafter at a load where drafts were not measured."""
    return (
        f"The engines run without a drafter, and drafts were not measured near batch {batch:.0f}; "
        f"drafting may gain {100 * expm1(gain):+.0f} % ± {100 * error:.0f} %."
    )


def better_table(wanted: Schedule, batch: float, old: int, k: int, gain: float, error: float) -> str:
    """The sentence for another schedule that would be faster at the present load."""
    more = _percent(gain, error)
    return f"The schedule {wanted} would be {more} faster at batch {batch:.0f} (K {old} -> {k})."


def advised(wish: str) -> str:
    """The sentence with advice for the user."""
    return f"{wish} {_ADVICE}"


def waits(wish: str, until: float) -> str:
    """The sentence for a postponed relaunch. until: unix seconds."""
    return f"{wish} Outrider relaunches at {_time(until)} at the earliest."


def proving(wish: str, at: float) -> str:
    """The sentence for a relaunch that has to look better for some more time. at: unix seconds."""
    return f"{wish} Outrider relaunches at {_time(at)} if that lasts."


def _percent(gain: float, error: float) -> str:
    return f"{100 * expm1(gain):.0f} % ± {100 * error:.0f} %"


def _interval(gain: LaunchGain) -> str:
    low, high = 100 * expm1(gain.low), 100 * expm1(gain.high)
    return f"{100 * expm1(gain.mean):+.1f} % (95 %: {low:+.1f} to {high:+.1f} %)"


def _short(drafter: str) -> str:
    return shortened(drafter, 200)


def _verification(launch: Launch) -> str:
    return "adaptive" if launch.adaptive else "fixed"


def _name(launch: Launch) -> str:
    return str(launch) or "the spec's configuration"


def _time(unix_seconds: float) -> str:
    return rfc3339(datetime.fromtimestamp(unix_seconds, UTC))
