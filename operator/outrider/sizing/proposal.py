"""A first K, the K that the tuner may use, and a static schedule; each with its source. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.sizing.sources import Evidence, Source
from outrider.sizing.speed import Speeds, safest_k
from outrider.sizing.tasks import PRESETS, Task
from outrider_protocol.schedule import Row, Schedule

_GUIDE_ROWS = ((8, (1, 2, 4, 8), None), (32, (9, 16, 32), 3), (None, (), 0))
"""The rule of thumb: up to batch 8 what the task has, up to 32 three, above none; with batches to compare."""
_LADDER = (0, 1, 2, 3, 5, 7)
"""Candidates below a ceiling: close together where a step of one matters most."""
_SMALL_PARAMETERS = 9e9
"""The rule of thumb for 7B and 8B models ends here."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to launch with."""

    candidates: tuple[int, ...]  # rising, 0 first
    schedule: Schedule
    sources: tuple[Source, ...]

    @property
    def ceiling(self) -> int:
        """The largest K."""
        return self.candidates[-1]


def ceiling_of(task: Task, parameters: float, acceptance: float | None) -> tuple[int, Source]:
    """The largest K worth a launch. acceptance: the user's own; None: that of the task."""
    preset = PRESETS[task]
    if acceptance is not None and acceptance > 0.8:
        return 7, Source("largest K", Evidence.READ, "rule of thumb: 7 to 8 above an acceptance of 0.8")
    if acceptance is not None and acceptance < 0.5:
        return 3, Source("largest K", Evidence.READ, "rule of thumb: 3 below an acceptance of 0.5")
    if parameters < _SMALL_PARAMETERS and task is not Task.CODE and preset.ceiling > 4:
        return 4, Source("largest K", Evidence.READ, "rule of thumb: 2 to 4 for models of 7B and 8B")
    return preset.ceiling, preset.ceiling_source


def candidates_up_to(ceiling: int) -> tuple[int, ...]:
    """What the tuner may use below a ceiling."""
    return tuple(sorted({*(k for k in _LADDER if k < ceiling), ceiling}))


def proposal(
    speeds: Speeds, candidates: Sequence[int], *, why_ceiling: Source, evidence: Evidence
) -> Proposal:
    """The schedule of the rule of thumb, and smaller K where `speeds` say that less is safer.

    evidence: what is known of the speeds.
    """
    rows: list[Row] = []
    sources = [why_ceiling]
    above = candidates[-1]
    for edge, batches, most in _GUIDE_ROWS:
        guide = max(k for k in candidates if most is None or k <= most)
        # The open row follows the rule of thumb, whatever the speeds say: its batches have no bound.
        safest = guide if edge is None else safest_k(speeds, batches, candidates)
        k = min(guide, safest, above)
        rows.append(Row(edge, k))
        sources.append(_why(edge, k, most, guide=guide, safest=safest, evidence=evidence))
        above = k
    return Proposal(tuple(candidates), Schedule(tuple(rows)).merged(), tuple(sources))


def _why(
    edge: int | None, k: int, most: int | None, *, guide: int, safest: int, evidence: Evidence
) -> Source:
    if edge is None:
        return Source(f"K={k} above 32", Evidence.READ, "rule of thumb: off above 32")
    what = f"K={k} up to {edge}"
    if k == guide:
        says = "the largest K" if most is None else f"at most {most}"
        return Source(what, Evidence.READ, f"rule of thumb: {says} up to {edge}")
    if k == safest:
        return Source(what, evidence, f"best where it does worst; the rule of thumb is {guide}")
    return Source(what, evidence, f"no more than for smaller batches; {safest} would be best up to {edge}")
