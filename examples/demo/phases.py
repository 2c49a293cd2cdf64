"""What is driven when: the trace, and the laps in which each arm drives it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from examples.kit.loads import Load, Prompts
from outrider.api.schedule import Schedule

STREAMS = (1, 8, 32, 2)
"""Concurrent streams, one phase each, first with code, then with prose."""


class Arm(StrEnum):
    """Who chooses K."""

    OUTRIDER = "outrider"
    """The tuner, from the example's static table on."""
    NO_DRAFTS = "static-zero"
    """K = 0 for every batch size, tuning off."""
    LONGEST_DRAFTS = "static-largest"
    """The largest K for every batch size, tuning off."""


PROMPTS = (Prompts.CODE, Prompts.PROSE)
TRACE = tuple(Load(streams, prompts) for prompts in PROMPTS for streams in STREAMS)
"""The load of each phase."""
ANSWER_TOKENS, FEWEST_PROMPTS = 64, 4
"""Short answers to few prompts: a slice of some seconds meets all of them, and so the texts of a phase that
is many times as long. With other texts the same K is worth something else."""
SIMULATED_TRACE = tuple(Load(streams, Prompts.MIXED) for streams in STREAMS)
"""The load of each phase on stand-ins: they say texts of their own, whether asked for code or for prose."""


@dataclass(frozen=True, slots=True)
class Lap:
    """One arm driving the whole trace once. ``phase_seconds``: length of each phase."""

    arm: Arm
    phase_seconds: float


@dataclass(frozen=True, slots=True)
class Durations:
    """How long phases last, in seconds: of Outrider's lap, of each static lap, of the lap on stand-ins."""

    outrider: float = 44.0
    static: float = 8.0
    simulated: float = 30.0

    @property
    def load_seconds(self) -> float:
        """All load on real engines together; what they need between laps comes on top."""
        return sum(lap.phase_seconds for lap in laps(self)) * len(TRACE)


def laps(durations: Durations) -> tuple[Lap, ...]:
    """Static arms run before and after Outrider, mirrored, so that a drift of the machine shows."""
    before = (Lap(Arm.NO_DRAFTS, durations.static), Lap(Arm.LONGEST_DRAFTS, durations.static))
    return (*before, Lap(Arm.OUTRIDER, durations.outrider), *reversed(before))


def static_table(arm: Arm, largest: int) -> Schedule | None:
    """The table that an arm holds; None for Outrider, which has no fixed one."""
    tables = {Arm.NO_DRAFTS: Schedule.constant(0), Arm.LONGEST_DRAFTS: Schedule.constant(largest)}
    return tables.get(arm)
