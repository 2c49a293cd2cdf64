"""One API server for all tests of faults in a process, and a life without faults to compare with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.faults.kills import Course, live
from tests.faults.place import Place, a_place


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak-minutes", default="30", help="minutes of random faults")


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with a_place(tmp_path_factory.mktemp("faults")) as found:
        yield found


@pytest.fixture(scope="session")
def namespaces() -> Callable[[], str]:
    """A new name at each call."""
    numbers = itertools.count(1)
    return lambda: f"life-{next(numbers)}"


@pytest.fixture(scope="session")
def reference(place: Place, namespaces: Callable[[], str]) -> Course:
    """A life without faults."""
    course = live(place, namespaces())
    assert not course.problems, course.problems
    return course
