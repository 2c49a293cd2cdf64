"""Which tests of the cluster may run side by side."""

from __future__ import annotations

from typing import cast

import pytest

from tests.cluster.side_by_side import HERE, LONGEST, mark


class AnItem:
    """A collected test with one marker, or none."""

    nodeid = "tests/cluster/test_a.py::test_b"

    def __init__(self, marker: pytest.MarkDecorator | None) -> None:
        self._marker = marker
        self.added: list[pytest.MarkDecorator] = []

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.added.append(marker)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self._marker.mark if self._marker and self._marker.mark.name == name else None


def test_every_file_of_the_list_of_long_tests_exists() -> None:
    assert [name for name in LONGEST if not (HERE / name).exists()] == []


@pytest.mark.parametrize(
    "marker",
    [None, pytest.mark.engine("twin"), pytest.mark.engine("gpu", "starts")],
    ids=["no marker", "no reason", "unknown"],
)
def test_a_test_that_does_not_say_which_engine_it_takes_and_why_is_not_collected(
    marker: pytest.MarkDecorator | None,
) -> None:
    with pytest.raises(pytest.UsageError, match="mark it with engine"):
        mark(cast(pytest.Item, AnItem(marker)))


def test_every_test_of_the_folder_needs_the_cluster() -> None:
    item = AnItem(pytest.mark.engine("twin", "starts"))
    mark(cast(pytest.Item, item))
    assert [marker.name for marker in item.added] == ["cluster"]
