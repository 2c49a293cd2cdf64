"""The step-time profile of a launch: its pod, and the pods that differ. Pure.

Pods of one launch revision run the same engine, so the profile of one holds for all. A pod that is much
slower or faster runs on another machine, and the status names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median

from outrider.controller.tune.engine_info import EngineInfo
from outrider.tuning.estimate.step_time_profile import MapCell, StepTimeProfile

MAX_DIFFERENCE = 0.1
"""Maximum relative difference, in the median over the points that two pods measured."""
_MAX_NAMED = 3
_SAME_CONTEXT = 1.5
"""Factor within which two context lengths count as the same point."""


@dataclass(frozen=True, slots=True)
class LaunchProfile:
    """A step-time profile, its launch revision, and the pod that measured it."""

    revision: str
    pod: str
    step_times: StepTimeProfile

    def among(self, candidates: Iterable[int]) -> StepTimeProfile | None:
        """The profile of the candidates only; None if no cell is left."""
        wanted = frozenset(candidates)
        cells = tuple(cell for cell in self.step_times.cells if cell.k in wanted)
        return StepTimeProfile(cells) if cells else None


@dataclass(frozen=True, slots=True)
class Differing:
    """A pod whose steps take ``ratio`` times as long as in the profile."""

    pod: str
    ratio: float

    def __str__(self) -> str:
        """``m-2 is 14 % slower``."""
        way = "slower" if self.ratio > 1 else "faster"
        return f"{self.pod} is {abs(self.ratio - 1):.0%} {way}".replace("%", " %")


def newest(known: LaunchProfile | None, infos: Sequence[EngineInfo]) -> LaunchProfile | None:
    """The profile to use with these ready pods.

    A known profile stays until a pod of its revision measured more points, or until no ready pod is of its
    revision. `infos`: the facts of all ready pods with a drafter that have answered.
    """
    revisions = {one.revision for one in infos}
    if known is not None and infos and known.revision not in revisions:
        known = None
    maps = [
        LaunchProfile(one.revision, one.pod, one.step_times) for one in infos if one.step_times is not None
    ]
    same = [one for one in maps if known is None or one.revision == known.revision]
    richest = max(same, key=_size, default=known)
    return richest if known is None or richest is None or _size(richest) > _size(known) else known


def differing(known: LaunchProfile | None, infos: Sequence[EngineInfo]) -> tuple[Differing, ...]:
    """Pods of the profile's revision that differ from it by more than `MAX_DIFFERENCE`."""
    if known is None:
        return ()
    found = (
        Differing(one.pod, ratio)
        for one in infos
        if one.revision == known.revision
        and one.step_times is not None
        and (ratio := _ratio(one.step_times, known.step_times)) is not None
    )
    return tuple(one for one in found if abs(log(one.ratio)) > log(1 + MAX_DIFFERENCE))


def describe(known: LaunchProfile | None, differing: Sequence[Differing]) -> str | None:
    """A summary for the status in one line; None without a profile."""
    if known is None:
        return None
    head = f"{_size(known)} cells, measured by {known.pod} before it served"
    more = len(differing) - _MAX_NAMED
    return "; ".join([head, *map(str, differing[:_MAX_NAMED]), *([f"and {more} more"] if more > 0 else [])])


def _ratio(found: StepTimeProfile, known: StepTimeProfile) -> float | None:
    places: dict[tuple[float, int], list[MapCell]] = {}
    for cell in known.cells:
        places.setdefault((cell.batch_size, cell.k), []).append(cell)
    ratios = [
        one.log_step - other.log_step
        for one in found.cells
        for other in places.get((one.batch_size, one.k), ())
        if _same_context(one, other)
    ]
    return exp(median(ratios)) if ratios else None


def _same_context(one: MapCell, other: MapCell) -> bool:
    if one.context is None or other.context is None:
        return one.context is other.context
    return max(one.context, other.context) <= _SAME_CONTEXT * min(one.context, other.context)


def _size(known: LaunchProfile) -> int:
    return len(known.step_times.cells)
