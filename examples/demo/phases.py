"""What is driven when: the trace, and which arm drives each of its loads when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from examples.kit.loads import RAMP_SECONDS, Load, Prompts
from outrider_protocol.schedule import Schedule

STREAMS = (1, 8, 32, 2)
"""Concurrent streams, one phase each, first with code, then with prose."""
STREAMS_BY_TURNS = 8
"""In the last phase, in which code and prose take turns."""


class Arm(StrEnum):
    """Who chooses K."""

    OUTRIDER = "outrider"
    """The tuner, which starts from the example's static schedule."""
    NO_DRAFTS = "static-zero"
    """K = 0 for every batch size, set by an override."""
    LONGEST_DRAFTS = "static-largest"
    """The largest K for every batch size, set by an override."""


PROMPTS = (Prompts.CODE, Prompts.PROSE)
TRACE = (
    *(Load(streams, prompts) for prompts in PROMPTS for streams in STREAMS),
    Load(STREAMS_BY_TURNS, Prompts.TURNS),
)
"""The load of each phase."""
ANSWER_TOKENS, FEWEST_PROMPTS = 64, 4
"""Short answers to few prompts, so that an interval of some seconds has the same texts as a whole phase. With
other texts the same K has another gain."""
SIMULATED_TRACE = tuple(Load(streams, Prompts.MIXED) for streams in STREAMS)
"""The load of each simulated phase; simulated engines answer with their own texts."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One arm under one load, for so many seconds. uncounted: of these, those that no comparison has."""

    arm: Arm
    load: Load
    seconds: float
    uncounted: float = RAMP_SECONDS

    @property
    def counts(self) -> bool:
        """Whether any of it is compared."""
        return self.uncounted < self.seconds


@dataclass(frozen=True, slots=True)
class Durations:
    """Durations of the parts of a phase in seconds, and the number of its rounds.

    learning: Outrider's time with a new load before the comparison. By default twice the half minute in which
    the tuner probes other K, because probes do not fill all of its time.
    static, own: each interval with fixed K, and Outrider's in the middle of a round. Where texts take turns,
    `of` returns other lengths.
    simulated: a phase on simulated engines. It has no intervals, and its first half is the learning.
    """

    learning: float = 60.0
    static: float = 8.0
    own: float = 22.0
    rounds: int = 2
    simulated: float = 30.0

    def of(self, arm: Arm, load: Load) -> float:
        """Return the length of an interval, in which each text counts for the same time.

        Comparisons have the halves of Outrider's intervals, so a half has whole periods as well.
        """
        own = arm is Arm.OUTRIDER
        wanted, period = (self.own if own else self.static), load.prompts.period_seconds * (2 if own else 1)
        if not period:
            return wanted
        return RAMP_SECONDS + period * max(1, round((wanted - RAMP_SECONDS) / period))


def visits(durations: Durations) -> tuple[Visit, ...]:
    """Return every phase: Outrider learns its load, then the rounds of intervals follow."""
    return tuple(visit for load in TRACE for visit in (_learning(load, durations), *_slices(load, durations)))


def simulated_visits(seconds: float) -> tuple[Visit, ...]:
    """Return the phases on simulated engines, which only Outrider drives."""
    return tuple(Visit(Arm.OUTRIDER, load, seconds, uncounted=seconds / 2) for load in SIMULATED_TRACE)


def _learning(load: Load, durations: Durations) -> Visit:
    return Visit(Arm.OUTRIDER, load, durations.learning, uncounted=durations.learning)


def _slices(load: Load, durations: Durations) -> list[Visit]:
    """Return the intervals of a phase; rounds are mirrored around Outrider's, so drift affects all alike."""
    before = (Arm.NO_DRAFTS, Arm.LONGEST_DRAFTS)
    order = (*before, Arm.OUTRIDER, *reversed(before))
    return [Visit(arm, load, durations.of(arm, load)) for arm in order * durations.rounds]


def static_table(arm: Arm, largest: int) -> Schedule | None:
    """The table that an arm holds; None for Outrider, which has no fixed one."""
    tables = {Arm.NO_DRAFTS: Schedule.constant(0), Arm.LONGEST_DRAFTS: Schedule.constant(largest)}
    return tables.get(arm)
