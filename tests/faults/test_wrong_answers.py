"""Whole lives of a model under wrong answers of the API server and of engines: what comes of them is equal.

Some run in `make test`, and all of them in `make faults`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.faults import Effect, Fault
from tests.faults.kills import Course, Under, live
from tests.faults.place import Place
from tests.faults.pods import ENGINE

AT_ONCE = 4
_SOON = {"OUTRIDER_RESYNC_SECONDS": "10"}
"""What a watch missed is read that soon."""


def of_api_server(effect: Effect, method: str = "", **more: int | float | bool) -> Under:
    """A life under one fault."""
    return Under(faults=(Fault(effect, method, **more),), settings=_SOON)  # type: ignore[arg-type]


def of_engines(effect: Effect, part: str, **more: int | float) -> Under:
    """A life under one fault of its engines. part: control or metrics."""
    fault = Fault(effect, plural=ENGINE, part=part, **more)  # type: ignore[arg-type]
    return Under(of_engines=(fault,))


QUICK: Mapping[str, Under] = {
    "the reply to every third write is lost": of_api_server(Effect.LOSE_REPLY, "PATCH", every=3),
    "every third call is answered with 500": of_api_server(Effect.STATUS, every=3, status=500),
    "every third event is lost": of_api_server(Effect.DROP_EVENT, watch=True, every=3),
}
LONG: Mapping[str, Under] = {
    "every second write meets a conflict": of_api_server(Effect.STATUS, "PATCH", every=2, status=409),
    "every fourth call is throttled": of_api_server(Effect.STATUS, every=4, status=429, retry_after=1),
    "every fourth connection is cut": of_api_server(Effect.CUT, every=4),
    "half of every fourth answer is lost": of_api_server(Effect.TRUNCATE, every=4),
    "every fifth answer is no JSON": of_api_server(Effect.GARBAGE, every=5),
    "every call takes 0.3 s": of_api_server(Effect.DELAY, seconds=0.3),
    "every event comes twice": of_api_server(Effect.DUPLICATE_EVENT, watch=True),
    "every second event comes late": of_api_server(Effect.SWAP_EVENTS, watch=True, every=2),
    "watches end with 500": of_api_server(Effect.ERROR_EVENT, watch=True, every=10, status=500),
    "watches end with 410": of_api_server(Effect.ERROR_EVENT, watch=True, every=5, status=410),
    "every third push is answered with 500": of_engines(Effect.STATUS, "control", every=3, status=500),
    "the reply to every third push is lost": of_engines(Effect.LOSE_REPLY, "control", every=3),
    "every second push takes 1 s": of_engines(Effect.DELAY, "control", every=2, seconds=1.0),
    "every third push is answered without JSON": of_engines(Effect.GARBAGE, "control", every=3),
    "metrics are answered with 500": of_engines(Effect.STATUS, "metrics", status=500),
    "metrics are no metrics": of_engines(Effect.GARBAGE, "metrics"),
}


def carry_out(
    lives: Mapping[str, Under], place: Place, namespaces: Callable[[], str], reference: Course
) -> list[str]:
    """All of them, some at a time. Returns what was wrong, by the fault."""
    names = [namespaces() for _ in lives]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        courses = list(
            pool.map(lambda name, under: live(place, name, under, reference), names, lives.values())
        )
    found = zip(lives, names, courses, strict=True)
    return [f"{what} ({name}): {problem}" for what, name, course in found for problem in course.problems]


def test_wrong_answers_leave_no_trace(place: Place, namespaces: Callable[[], str], reference: Course) -> None:
    problems = carry_out(QUICK, place, namespaces, reference)
    assert not problems, "\n".join(problems)


@pytest.mark.nightly("long")
def test_more_wrong_answers_leave_no_trace(
    place: Place, namespaces: Callable[[], str], reference: Course
) -> None:
    problems = carry_out(LONG, place, namespaces, reference)
    assert not problems, "\n".join(problems)
