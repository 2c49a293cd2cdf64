"""One number of the law's policy at a time, half and one and a half times its default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from outrider.tuning.policy import Policy
from tests.bench.tuning.families import Job, moving, stationary

FACTORS = (0.5, 1.5)
UNCHANGED = "as it is"
MOVING = ("task_shift", "context_shift")
"""Kinds of moving traffic in the sweep; all of them would take too long."""


def changes() -> Iterator[tuple[str, dict[str, float]]]:
    """Name and value of every change."""
    default = Policy(candidates=(0, 1, 2, 3, 5), max_num_seqs=64)
    for name, value in default.numbers.items():
        if isinstance(value, bool) or value is None:
            continue
        for factor in FACTORS:
            if value * factor != value:
                yield f"{name} x {factor:g}", {name: value * factor}


def jobs(seeds: int) -> Iterator[Job]:
    """The tune half: published tables, and some moving traffic. Jobs of one case follow each other."""
    cases = [
        *stationary("tune", seeds, ("outrider",), "published"),
        *(job for job in moving("tune", seeds, ("outrider",)) if job.case in MOVING),
    ]
    for case in cases:
        for name, change in ((UNCHANGED, {}), *changes()):
            yield replace(case, changes=change, change=name)
