"""Closed load: parts of a tick in which one pod has one number of streams and one K."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outrider.api.schedule import Schedule
from outrider_lab.engines.fleet import ProbeRun


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a tick."""

    phase: int
    started_at: float  # seconds
    seconds: float
    k: int
    off_table: bool
    probed: bool = False  # a probe holds K


def cut(
    starts: Sequence[float],
    loads: Sequence[int],
    now: float,
    until: float,
    schedule: Schedule,
    running: ProbeRun | None,
) -> Iterator[Piece]:
    """Yield pieces from `now` to `until`. Parts of a probe come first, if the load is in its bin.

    starts: seconds at which phases begin, and the end.
    loads: streams by phase.
    """
    for index, load in enumerate(loads):
        at, end = max(now, starts[index]), min(until, starts[index + 1])
        table_k = schedule.k_at(load)
        while end - at > 1e-9:
            slice_ = None if running is None else running.k_for(load, at)
            if running is None or slice_ is None:
                yield Piece(index, at, end - at, table_k, off_table=False)
                break
            k, left = slice_
            seconds = min(left, end - at, running.deadline - at)
            yield Piece(index, at, seconds, k, off_table=k != table_k, probed=True)
            running.spend(seconds)
            at += seconds
