"""One field of the law's policy at a time, half and one and a half times its default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from outrider.tuning.policy import Policy
from tests.bench.tuning.families import Job, moving, stationary

FACTORS = (0.5, 1.5)
UNCHANGED = "as it is"
MOVING = ("task_shift", "context_shift", "stock")
"""Kinds of moving traffic in the sweep; all of them would take too long."""


def changes() -> Iterator[tuple[str, dict[str, float]]]:
    """Name and value of every change that makes a valid policy."""
    default = Policy(candidates=(0, 1, 2, 3, 5), max_num_seqs=64)
    for field in fields(Policy):
        value = getattr(default, field.name)
        if field.name == "max_num_seqs" or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        for factor in FACTORS:
            changed = value * factor if isinstance(value, float) else max(1, round(value * factor))
            if changed == value:
                continue
            try:
                replace(default, **{field.name: changed})
            except ValueError:
                continue
            yield f"{field.name} x {factor:g}", {field.name: changed}


def jobs(seeds: int) -> Iterator[Job]:
    """The tune half: published tables, and some moving traffic. Jobs of one case follow each other."""
    cases = [
        *stationary("tune", seeds, ("outrider",), "published"),
        *(job for job in moving("tune", seeds, ("outrider",)) if job.case in MOVING),
    ]
    for case in cases:
        for name, change in ((UNCHANGED, {}), *changes()):
            yield replace(case, changes=change, change=name)
