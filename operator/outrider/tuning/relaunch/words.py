"""What the rules about relaunches say, for conditions and events. Gains are logarithms."""

from __future__ import annotations

from datetime import UTC, datetime
from math import expm1

from outrider.api.conditions import rfc3339
from outrider.api.launch import Launch
from outrider.api.schedule import Schedule
from outrider.tuning.estimate.tax import Tax

CANARY_DID_NOT_START = "it did not get ready"
CANARY_TOLD_NOTHING = (
    "it told nothing, since K=0 beside the drafter or the canary was not measured well enough"
)
CANARY_ORDERED = "One replica is launched without speculation, to be measured against."
CANARY_STARTS = "One replica starts without speculation, to be measured against."
CANARY_RUNS = "One replica runs without speculation, to be measured against."
NOTHING_BETTER = "Another launch is not known to be better."

_ADVICE = "Set spec.speculation.tuning.structuralOff to Allow, or spec.speculation.method to none."


def late(launch: Launch, deadline_seconds: float, as_ordered: int, replicas: int) -> str:
    """A relaunch that did not end."""
    return (
        f"The launch {_name(launch)} did not end within {deadline_seconds:.0f} s: "
        f"{as_ordered} of {replicas} pods run it. The launch before returns."
    )


def under_way(launch: Launch, as_ordered: int, replicas: int) -> str:
    """How far a relaunch is."""
    return f"{as_ordered} of {replicas} pods run the launch {_name(launch)}."


def canary_ends(told: str) -> str:
    """told: what came of it."""
    return f"The canary ends: {told}."


def tax_costs(tax: Tax) -> str:
    """What K=0 costs beside a drafter."""
    return f"K=0 beside the drafter costs {_percent(tax.mean, tax.deviation)}"


def slower(k: int, old: int, loss: float, error: float, batch: float) -> str:
    """The table of the last relaunch did not pay."""
    return (
        f"With K {k} engines are {_percent(loss, error)} slower than before with "
        f"K {old} at batch {batch:.0f}. The launch before returns."
    )


def drafter_idle(k0_duty: float, of_seconds: float, tax: Tax) -> str:
    """Hardly anything is drafted. k0_duty: share of the time with K=0."""
    return f"K was 0 for {100 * k0_duty:.0f} % of the last {of_seconds / 60:.0f} min, and {tax_costs(tax)}."


def drafter_would_pay(batch: float, gain: float, error: float) -> str:
    """Drafting would pay again."""
    return (
        f"Launched without a drafter; at batch {batch:.0f} drafting would bring "
        f"{100 * expm1(gain):+.0f} % ± {100 * error:.0f} %."
    )


def better_table(wanted: Schedule, batch: float, old: int, k: int, gain: float, error: float) -> str:
    """Another table would be faster at the load of now."""
    more = _percent(gain, error)
    return f"The table {wanted} would be {more} faster at batch {batch:.0f} (K {old} -> {k})."


def advised(wish: str) -> str:
    """A wish that the user has to carry out."""
    return f"{wish} {_ADVICE}"


def waits(wish: str, until: float) -> str:
    """until: unix seconds."""
    return f"{wish} Relaunches wait until {_time(until)}."


def proving(wish: str, at: float) -> str:
    """A wish that has to look better for some more time. at: unix seconds."""
    return f"{wish} Relaunched at {_time(at)} if that stays."


def _percent(gain: float, error: float) -> str:
    return f"{100 * expm1(gain):.0f} % ± {100 * error:.0f} %"


def _name(launch: Launch) -> str:
    return str(launch) or "of the spec"


def _time(unix_seconds: float) -> str:
    return rfc3339(datetime.fromtimestamp(unix_seconds, UTC))
