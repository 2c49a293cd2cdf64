"""From per-second counts and observed tables to figures. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from examples.demo.phases import Arm, Phase

RAMP_SECONDS = 2.0
"""A static slice counts from here on: prompts are read and the streams are under way."""
HELD_SECONDS = 8.0
"""A K that stays this long was chosen; a shorter one may have been a trial."""


@dataclass(frozen=True, slots=True)
class Second:
    """What the load client counted in one period that ended at ``time`` (unix seconds)."""

    time: float
    tokens: int
    requests: int
    failed: int
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stretch:
    """One phase of one lap as it was driven. ``start`` and ``end`` are unix seconds of the client."""

    arm: Arm
    lap: int
    phase: Phase
    start: float
    seconds: tuple[Second, ...]

    @property
    def end(self) -> float:
        """When the last count was taken."""
        return self.seconds[-1].time if self.seconds else self.start


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
class Move:
    """A live change of K at the load of that moment."""

    time: float
    phase: str
    streams: int
    from_k: int
    to_k: int
    held: bool
    """It stayed for HELD_SECONDS, so it was chosen and not just tried."""


def rate(stretch: Stretch, *, since: float, until: float) -> float | None:
    """Tokens per second between two fractions (0..1) of a stretch; None without a full period there."""
    length = stretch.end - stretch.start
    return _rate(stretch, stretch.start + since * length, stretch.start + until * length)


def slice_rate(stretch: Stretch) -> float | None:
    """Tokens per second of a static slice after its ramp."""
    return _rate(stretch, stretch.start + RAMP_SECONDS, stretch.end)


def _rate(stretch: Stretch, since: float, until: float) -> float | None:
    edges = [stretch.start, *(second.time for second in stretch.seconds)]
    tokens, covered = 0, 0.0
    for (begin, end), second in zip(pairwise(edges), stretch.seconds, strict=True):
        middle = (begin + end) / 2
        if since <= middle <= until:
            tokens += second.tokens
            covered += end - begin
    return tokens / covered if covered > 0 else None


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


def moves(stretches: Iterable[Stretch], observed: Sequence[Observed]) -> list[Move]:
    """Every change of K by a new table, at the load of its moment.

    A K that changes merely because the load moved to another row of the same table is no move.
    """
    found: list[Move] = []
    for stretch in stretches:
        inside = [one for one in observed if one.table and stretch.start <= one.time <= stretch.end]
        runs = _runs(inside, stretch)
        found += [
            Move(
                since, stretch.phase.name, stretch.phase.streams, before, after, until - since >= HELD_SECONDS
            )
            for (_, _, before), (since, until, after) in pairwise(runs)
        ]
    return found


def _runs(observed: Sequence[Observed], stretch: Stretch) -> list[tuple[float, float, int]]:
    """Spans (since, until, K) of equal K at the stretch's load."""
    runs: list[tuple[float, float, int]] = []
    for one in observed:
        k = k_at(one.table or "", stretch.phase.streams)
        if runs and runs[-1][2] == k:
            continue
        if runs:
            runs[-1] = (runs[-1][0], one.time, runs[-1][2])
        runs.append((one.time, stretch.end, k))
    return runs
