"""From per-second counts and observed tables to figures. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from examples.demo.phases import Arm, Phase
from outrider.tuning.decision import DecisionReason

RAMP_SECONDS = 2.0
"""A static slice counts from here on: prompts are read and the streams are under way."""
TRIALS = frozenset({DecisionReason.CALIBRATION, DecisionReason.PROBE})
"""Reasons of decisions that try a K; every other one chooses it."""


@dataclass(frozen=True, slots=True)
class Second:
    """What the load client counted in a period of ``seconds`` that ended at ``time`` (unix seconds)."""

    time: float
    seconds: float
    tokens: int
    requests: int
    failed: int
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stretch:
    """One phase of one lap as it was driven. ``seconds`` is never empty."""

    arm: Arm
    lap: int
    phase: Phase
    seconds: tuple[Second, ...]

    @property
    def start(self) -> float:
        """When the load began, in unix seconds of the client."""
        return self.seconds[0].time - self.seconds[0].seconds

    @property
    def end(self) -> float:
        """When the last count was taken."""
        return self.seconds[-1].time


@dataclass(frozen=True, slots=True)
class Observed:
    """The model's status at one time."""

    time: float
    table: str | None
    """The table in force, in one line; None while no engine reports one."""
    acceptance_rate: float | None


@dataclass(frozen=True, slots=True)
class Drafts:
    """Drafted and accepted tokens between two scrapes; ``time`` lies in their middle."""

    time: float
    accepted: float
    drafted: float


@dataclass(frozen=True, slots=True)
class Decided:
    """A new table that the tuner decided on."""

    time: float
    to: str
    reason: str

    @property
    def is_trial(self) -> bool:
        """Whether the table is only tried; what is tried may go again."""
        return self.reason in TRIALS


@dataclass(frozen=True, slots=True)
class Move:
    """A chosen change of K at the load of that moment."""

    time: float
    phase: str
    streams: int
    from_k: int
    to_k: int
    reason: str


def rate(stretch: Stretch, *, since: float, until: float) -> float | None:
    """Tokens per second between two fractions (0..1) of a stretch; None without a full period there."""
    length = stretch.end - stretch.start
    return _rate(stretch, stretch.start + since * length, stretch.start + until * length)


def slice_rate(stretch: Stretch) -> float | None:
    """Tokens per second of a static slice after its ramp."""
    return _rate(stretch, stretch.start + RAMP_SECONDS, stretch.end)


def _rate(stretch: Stretch, since: float, until: float) -> float | None:
    inside = [one for one in stretch.seconds if since <= one.time - one.seconds / 2 <= until]
    covered = sum(one.seconds for one in inside)
    return sum(one.tokens for one in inside) / covered if covered > 0 else None


def acceptance_rate(drafts: Iterable[Drafts]) -> float | None:
    """Accepted over drafted tokens of all spans together; None when nothing was drafted."""
    spans = list(drafts)
    drafted = sum(span.drafted for span in spans)
    return sum(span.accepted for span in spans) / drafted if drafted > 0 else None


def k_at(table: str, streams: int) -> int:
    """K for a batch of this size by a table in its one-line form, such as ``8:3,*:0``."""
    for row in table.split(","):
        limit, k = row.split(":")
        if limit == "*" or streams <= int(limit):
            return int(k)
    raise ValueError(f"no open row in {table!r}")


def moves(
    stretches: Iterable[Stretch], decided: Iterable[Decided], observed: Iterable[Observed], start_table: str
) -> list[Move]:
    """Every change of the chosen K at the load of its moment, of tables that were seen in force.

    Trials are left out, and so is the way back from one: K is compared with the last choice.
    """
    in_force = {one.table for one in observed}
    spans = list(stretches)
    found, chosen = [], start_table
    for decision in sorted(decided, key=lambda one: one.time):
        if decision.is_trial or decision.to not in in_force:
            continue
        stretch = next((one for one in spans if one.start <= decision.time <= one.end), None)
        if stretch is not None:
            streams = stretch.phase.streams
            before, after = k_at(chosen, streams), k_at(decision.to, streams)
            if before != after:
                found.append(Move(decision.time, stretch.phase.name, streams, before, after, decision.reason))
        chosen = decision.to
    return found
