"""The report of the engine core, as plain types that cross process borders."""

from __future__ import annotations

from typing import TypedDict

from outrider_twin.pace import Lateness


class Report(TypedDict):
    """Times in seconds, since the engine started; see `Lateness`."""

    engine: str
    asynchronous: bool
    steps: int
    scheduled: float
    lost: float
    latest: float
    ratio: float
    time_factor: float


def report(name: str, lateness: Lateness, *, time_factor: float, asynchronous: bool) -> Report:
    """name: of the description. asynchronous: whether vLLM schedules ahead of the results."""
    return Report(
        engine=name,
        asynchronous=asynchronous,
        steps=lateness.steps,
        scheduled=lateness.scheduled,
        lost=lateness.lost,
        latest=lateness.latest,
        ratio=lateness.ratio,
        time_factor=time_factor,
    )
