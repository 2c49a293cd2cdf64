"""What is driven when: the trace, and which arm drives each of its loads when."""

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
    """K = 0 for every batch size, the tuner overruled."""
    LONGEST_DRAFTS = "static-largest"
    """The largest K for every batch size, the tuner overruled."""


PROMPTS = (Prompts.CODE, Prompts.PROSE)
TRACE = tuple(Load(streams, prompts) for prompts in PROMPTS for streams in STREAMS)
"""The load of each phase."""
ANSWER_TOKENS, FEWEST_PROMPTS = 64, 4
"""Short answers to few prompts: a slice of some seconds meets all of them, and so the texts of a phase that
is many times as long. With other texts the same K is worth something else."""
SIMULATED_TRACE = tuple(Load(streams, Prompts.MIXED) for streams in STREAMS)
"""The load of each phase on stand-ins: they say texts of their own, whether asked for code or for prose."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One arm under one load, for so many seconds."""

    arm: Arm
    load: Load
    seconds: float


@dataclass(frozen=True, slots=True)
class Durations:
    """In seconds: Outrider's part of a phase, each static slice of it, a phase of the lap on stand-ins.

    What counts is the second half of Outrider's part. By default what the tuner tries in a new load, half a
    minute of it, lies before.
    """

    outrider: float = 88.0
    static: float = 16.0
    simulated: float = 30.0

    @property
    def load_seconds(self) -> float:
        """All load on real engines together; what they need between two visits comes on top."""
        return sum(visit.seconds for visit in visits(self))


def visits(durations: Durations) -> tuple[Visit, ...]:
    """In each phase static arms run before and after Outrider, mirrored: what drifts meets all arms alike."""
    before = (Arm.NO_DRAFTS, Arm.LONGEST_DRAFTS)
    order = (*before, Arm.OUTRIDER, *reversed(before))
    seconds = dict.fromkeys(before, durations.static) | {Arm.OUTRIDER: durations.outrider}
    return tuple(Visit(arm, load, seconds[arm]) for load in TRACE for arm in order)


def static_table(arm: Arm, largest: int) -> Schedule | None:
    """The table that an arm holds; None for Outrider, which has no fixed one."""
    tables = {Arm.NO_DRAFTS: Schedule.constant(0), Arm.LONGEST_DRAFTS: Schedule.constant(largest)}
    return tables.get(arm)
