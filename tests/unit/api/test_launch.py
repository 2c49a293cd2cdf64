from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.api.launch import ANNOTATION, Launch, LaunchOrder
from outrider_protocol.schedule import Row, Schedule

schedules = st.builds(
    lambda edges, ks, last: Schedule(
        (*(Row(edge, k) for edge, k in zip(sorted(edges), ks, strict=False)), Row(None, last))
    ),
    st.lists(st.integers(1, 512), max_size=4, unique=True),
    st.lists(st.integers(0, 32), min_size=4, max_size=4),
    st.integers(0, 32),
)
launches = st.one_of(st.just(Launch()), st.just(Launch(drafter=False)), st.builds(Launch, schedule=schedules))


@given(launch=launches)
def test_a_pod_reports_how_it_was_started(launch: Launch) -> None:
    assert Launch.of_pod({ANNOTATION: str(launch)}) == launch


def test_a_pod_without_an_annotation_was_started_as_the_spec_says() -> None:
    assert Launch.of_pod({}) == Launch()


@given(order=st.builds(LaunchOrder, launches, st.sampled_from([None, Launch(drafter=False)])))
def test_an_order_is_read_as_it_was_stored(order: LaunchOrder) -> None:
    assert LaunchOrder.from_data(order.to_data()) == order


def test_an_empty_order_is_the_launch_of_the_spec() -> None:
    assert LaunchOrder.from_data({}) == LaunchOrder()


@pytest.mark.parametrize(
    ("data", "key"), [({"launch": "fast"}, "launch: "), ({"canary": "yes"}, "canary: 'yes'")]
)
def test_an_unreadable_order_names_the_key(data: dict[str, str], key: str) -> None:
    with pytest.raises(ValueError, match=key):
        LaunchOrder.from_data(data)
