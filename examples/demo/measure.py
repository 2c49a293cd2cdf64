"""From per-second counts and observed tables to figures. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from examples.demo.phases import Arm
from examples.demo.result import ArmStretch, Move
from examples.kit.records import Count, DecisionSample, StatusSample, Stretch
from examples.kit.status import k_at
from outrider.api.reasons import DecisionReason

TRIALS = frozenset({DecisionReason.CALIBRATION, DecisionReason.PROBE})
"""Reasons of decisions that only try a K, so that it may go again; every other one chooses it."""


@dataclass(frozen=True, slots=True)
class Drafts:
    """Drafted and accepted tokens between two scrapes; ``time`` lies in their middle."""

    time: float
    accepted: float
    drafted: float


def rate(counts: Iterable[Count]) -> float | None:
    """Tokens per second of all counts together; None without any."""
    known = list(counts)
    covered = sum(one.seconds for one in known)
    return sum(one.tokens for one in known) / covered if covered > 0 else None


def own_parts(stretches: Iterable[ArmStretch]) -> dict[str, list[ArmStretch]]:
    """Outrider's stretches of each load: its learning and its intervals, in their order."""
    found: dict[str, list[ArmStretch]] = {}
    for stretch in stretches:
        if stretch.arm is Arm.OUTRIDER:
            found.setdefault(stretch.load, []).append(stretch)
    return found


def placed(stretches: Iterable[Stretch], time: float) -> tuple[Stretch, float] | None:
    """The stretch that covers a time, and the seconds of all of them that had passed by then."""
    passed = 0.0
    for stretch in stretches:
        if stretch.covers(time):
            return stretch, passed + time - stretch.start
        passed += stretch.end - stretch.start
    return None


def acceptance_rate(drafts: Iterable[Drafts]) -> float | None:
    """Accepted over drafted tokens of all spans together; None when nothing was drafted."""
    spans = list(drafts)
    drafted = sum(span.drafted for span in spans)
    return sum(span.accepted for span in spans) / drafted if drafted > 0 else None


def moves(
    stretches: Iterable[Stretch],
    decided: Iterable[DecisionSample],
    statuses: Iterable[StatusSample],
    start_table: str,
) -> list[Move]:
    """Every change of the chosen K at the load of its moment, of tables that were seen in force.

    Trials are left out, and so is the way back from one: K is compared with the last choice.
    """
    in_force = {one.table for one in statuses}
    spans = list(stretches)
    found, chosen = [], start_table
    for decision in sorted(decided, key=lambda one: one.time):
        if decision.reason in TRIALS or decision.to_table not in in_force:
            continue
        if (place := placed(spans, decision.time)) is not None:
            stretch, seconds = place
            streams = stretch.streams
            before, after = k_at(chosen, streams), k_at(decision.to_table, streams)
            if before != after:
                found.append(
                    Move(
                        seconds=seconds,
                        phase=stretch.load,
                        streams=streams,
                        from_k=before,
                        to_k=after,
                        reason=decision.reason,
                    )
                )
        chosen = decision.to_table
    return found
