"""Validity of a measurement on simulated engines, from their counters of lateness. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from prometheus_client.parser import text_string_to_metric_families

MOST_LATE = 0.01
"""Maximum ratio of lost to scheduled time. A later engine measures the machine, not the GPU's step times."""

_Engine = TypeVar("_Engine", bound=Hashable)

SCHEDULED, LOST = "outrider_twin:scheduled_seconds_total", "outrider_twin:lost_seconds_total"


@dataclass(frozen=True, slots=True)
class Lateness:
    """Counters of one simulated engine since its start, in seconds.

    scheduled: time of all its steps by the table. lost: by so much longer they took.
    """

    scheduled: float
    lost: float


def lateness_of(metrics: str) -> Lateness | None:
    """From the text of an engine's ``/metrics``; None of an engine that computes."""
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name in (SCHEDULED, LOST):
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return Lateness(sums[SCHEDULED], sums[LOST]) if sums.keys() == {SCHEDULED, LOST} else None


def late(before: Lateness, after: Lateness) -> float:
    """Return lost over scheduled time between two moments; 1 if the counters do not show it.

    That happens if they fell because the engine restarted, or if time was lost without a scheduled step.
    """
    scheduled, lost = after.scheduled - before.scheduled, after.lost - before.lost
    if scheduled < 0 or lost < 0 or (lost > 0 and scheduled == 0):
        return 1.0
    return lost / scheduled if scheduled else 0.0


def latest(before: Mapping[_Engine, Lateness], after: Mapping[_Engine, Lateness]) -> float:
    """`late` of the engine that was latest, among those that were there at both moments."""
    return max(
        (late(began, after[engine]) for engine, began in before.items() if engine in after), default=0.0
    )


def is_void(share: float | None) -> bool:
    """Whether a measurement says nothing. share: by which it was late; None of an engine that computes."""
    return share is not None and share > MOST_LATE
