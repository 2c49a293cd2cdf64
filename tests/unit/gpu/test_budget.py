"""How a check divides its time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.gpu.budget import Need, allotments

FIRST, SECOND, THIRD = Need("first", 1, 20, 60), Need("second", 2, 20, 60), Need("third", 0, 10, 10)


def test_with_enough_time_every_part_gets_what_it_wants() -> None:
    assert allotments([FIRST, SECOND, THIRD], 1000, start_seconds=90) == {
        "first": 60,
        "second": 60,
        "third": 10,
    }


def test_what_remains_is_divided_among_the_parts_that_can_use_it() -> None:
    fewest = 3 * 90 + 20 + 20 + 10
    assert allotments([FIRST, SECOND, THIRD], fewest + 40, start_seconds=90) == {
        "first": 40,
        "second": 40,
        "third": 10,
    }


def test_a_part_that_does_not_fit_leaves_its_time_to_later_ones() -> None:
    assert allotments([SECOND, FIRST], 150, start_seconds=90) == {"first": 60}


def test_without_time_no_part_fits() -> None:
    assert allotments([FIRST, THIRD], 5, start_seconds=90) == {}


NEEDS = st.lists(
    st.tuples(st.integers(0, 3), st.floats(0, 100), st.floats(0, 100)).map(
        lambda drawn: (drawn[0], drawn[1], drawn[1] + drawn[2])
    ),
    max_size=8,
)


@given(NEEDS, st.floats(0, 2000), st.floats(0, 200))
def test_parts_never_get_more_than_the_time_that_is_left(
    drawn: list[tuple[int, float, float]], seconds: float, start: float
) -> None:
    needs = [Need(str(number), *each) for number, each in enumerate(drawn)]
    found = allotments(needs, seconds, start_seconds=start)
    by_name = {need.name: need for need in needs}
    assert (
        sum(by_name[name].starts * start + measuring for name, measuring in found.items()) <= seconds + 1e-6
    )
    for name, measuring in found.items():
        assert by_name[name].least <= measuring <= by_name[name].wanted + 1e-9
