"""SIGKILL of the operator before and after each call of a model's life: what comes of it is always the same.

A life has one kill in each of its steps. A part of the table runs in `make test`, and all of it in
`make faults`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.kills import Course, Kill, Under, live, lives, table
from tests.faults.place import Place

AT_ONCE = 4
SHARE = 20
"""One of so many kills runs in the quick half."""
PARTS = 8
"""Tests into which the whole table is divided: ``-k "part and 3"`` repeats the fourth."""
MOST_UNMET = 0.25
"""Share of kills whose call may lack, because statuses merge when the machine is slow."""


def carry_out(
    rows: Sequence[Sequence[Kill]], place: Place, namespaces: Callable[[], str], reference: Course
) -> tuple[list[str], list[Kill]]:
    """One life for each row. Returns what was wrong, by kills, and the kills that were not met."""
    names = [namespaces() for _ in rows]

    def course_of(name: str, row: Sequence[Kill]) -> Course:
        course = live(place, name, Under(tuple(row)), reference)
        for kill in row:
            print(f"{name}: {kill}: {'met' if kill in course.struck else 'not met'}", flush=True)
        print(f"{name}: {'; '.join(course.problems) or 'ok'}", flush=True)
        return course

    with ThreadPoolExecutor(AT_ONCE) as pool:
        courses = list(pool.map(course_of, names, rows))
    found = list(zip(names, rows, courses, strict=True))
    problems = [
        f"{name}, {'; '.join(map(str, course.struck))}: {problem}"
        for name, _, course in found
        for problem in course.problems
    ]
    return problems, [kill for _, row, course in found for kill in row if kill not in course.struck]


def must_leave_no_trace(
    rows: Sequence[Sequence[Kill]], place: Place, namespaces: Callable[[], str], reference: Course
) -> None:
    """Kills that were not met have a life of their own: a kill before them changed which calls came."""
    problems, missed = carry_out(rows, place, namespaces, reference)
    more, unmet = carry_out([(kill,) for kill in missed], place, namespaces, reference)
    many = sum(map(len, rows))
    print(
        f"{many} kills in {len(rows)} lives, {len(missed)} not met there, {len(unmet)} never met", flush=True
    )
    assert not problems + more, "\n".join(problems + more)
    assert len(unmet) <= MOST_UNMET * many, "\n".join(map(str, unmet))


def test_a_sample_of_kills_leaves_no_trace(
    place: Place, namespaces: Callable[[], str], reference: Course
) -> None:
    must_leave_no_trace(lives(table(reference.points)[::SHARE]), place, namespaces, reference)


@pytest.mark.nightly("table")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_kill_leaves_no_trace(
    part: int, place: Place, namespaces: Callable[[], str], reference: Course
) -> None:
    must_leave_no_trace(lives(table(reference.points))[part::PARTS], place, namespaces, reference)
