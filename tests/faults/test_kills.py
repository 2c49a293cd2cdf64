"""SIGKILL of the operator before and after each call of a model's life: what comes of it is always the same.

A tenth of the table runs in `make test`, and all of it in `make faults`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.kills import WHOLE_LIFE, Course, Kill, Under, live, table
from tests.faults.place import Place

AT_ONCE = 4
SHARE = 40
"""One of so many kills runs in the quick half."""
MOST_UNMET = 0.4
"""Share of kills whose call may lack, because statuses merge when the machine is slow."""


def carry_out(
    kills: Sequence[Kill], place: Place, namespaces: Callable[[], str], reference: Course
) -> list[str]:
    """One life for each kill. Returns what was wrong, by kill."""
    names = [namespaces() for _ in kills]

    def course_of(name: str, kill: Kill) -> Course:
        course = live(place, name, Under(kill), reference)
        print(f"{kill}: {'; '.join(course.problems) or 'ok' if course.struck else 'not met'}", flush=True)
        return course

    with ThreadPoolExecutor(AT_ONCE) as pool:
        courses = list(pool.map(course_of, names, kills))
    unmet = [kill for kill, course in zip(kills, courses, strict=True) if not course.struck]
    print(f"{len(kills)} kills, {len(unmet)} of them not met: {'; '.join(map(str, unmet))}")
    assert len(unmet) <= MOST_UNMET * len(kills)
    found = zip(names, kills, courses, strict=True)
    return [f"{kill} ({name}): {problem}" for name, kill, course in found for problem in course.problems]


def test_a_sample_of_kills_leaves_no_trace(
    place: Place, namespaces: Callable[[], str], reference: Course
) -> None:
    kills = table(reference.points)
    problems = carry_out(kills[::SHARE], place, namespaces, reference)
    assert not problems, "\n".join(problems)


@pytest.mark.nightly("table")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("step", [step.name for step in WHOLE_LIFE])
def test_every_kill_in_a_step_leaves_no_trace(
    step: str, place: Place, namespaces: Callable[[], str], reference: Course
) -> None:
    kills = [kill for kill in table(reference.points) if kill.point.step == step]
    problems = carry_out(kills, place, namespaces, reference)
    assert not problems, "\n".join(problems)
